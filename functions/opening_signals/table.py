"""Rows as lines of text for a terminal, and cells fit for a spreadsheet. Feeds write what they like: nothing that is
not printable gets through."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from unicodedata import category

_FORMULA = ("=", "+", "-", "@")
_PAGE = 500
_WIDEST = 40


def lines(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A line per row under a heading. The first rows decide how wide the columns are, so that any number of rows
    takes no memory; a longer cell is cut, except in the last column, where an address must stay whole."""
    coming = ([cell(value) for value in row] for row in rows)
    first = [list(names), *islice(coming, _PAGE)]
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*first, strict=True)]
    first.insert(1, ["-" * width for width in widths])
    for row in chain(first, coming):
        *others, last = row
        yield "  ".join([*map(_fitted, others, widths), last]).rstrip()


def cell(value: object) -> str:
    """A time as the local one, null as nothing, and no character that is not printable."""
    if value is None:
        return ""
    return _shown(f"{value.astimezone():%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value))


def spreadsheet(value: object) -> object:
    """The value as a cell of a CSV file: a text that a spreadsheet would take for a formula is marked as a text."""
    if not isinstance(value, str):
        return value
    return f"'{_shown(value)}" if value.lstrip()[:1] in _FORMULA else _shown(value)


def _shown(text: str) -> str:
    """A space for every space, and a question mark for whatever else is not printable: it may move the cursor."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if category(char) == "Zs" else "?" for char in text)


def _fitted(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"
