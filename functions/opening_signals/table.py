"""Rows as lines of text for a terminal. Feeds write what they like: nothing that is not printable gets through."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice

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
    """A time as the local one, null as nothing, and every character that is not printable as a question mark."""
    text = f"{value.astimezone():%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)
    if value is None:
        return ""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def _fitted(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"
