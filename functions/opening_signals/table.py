"""Rows as lines of text for a terminal, and cells fit for a spreadsheet. Feeds write what they like: nothing that is
not printable gets through."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from unicodedata import category

# Full-width signs count as well. A spreadsheet with other separators than ours may begin a cell after any of these.
_FORMULA = re.compile(r"(^|[,;|])(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])")
_PAGE = 500
_WIDEST = 40


def _as_they_are(widths: dict[str, int]) -> dict[str, int]:
    return widths


def lines(
    names: Sequence[str],
    rows: Iterable[Sequence[object]],
    fit: Callable[[dict[str, int]], dict[str, int]] = _as_they_are,
) -> Iterator[str]:
    """A line per row under a heading. The first rows decide how wide the columns are, so that any number of rows
    takes no memory; a longer cell is cut, except in the last column, where an address must stay whole. `fit` says
    which columns stay and how wide they are."""
    coming = ([cell(value) for value in row] for row in rows)
    first = [list(names), *islice(coming, _PAGE)]
    found = [max(map(len, column)) for column in zip(*first, strict=True)]
    last = names[-1]
    widths = fit(
        {name: width if name == last else min(width, _WIDEST) for name, width in zip(names, found, strict=True)}
    )
    first.insert(1, ["-" * min(widths.get(name, 0), _WIDEST) for name in names])
    # The last one stays whole wherever it stays.
    kept = [(place, widths[name], name == last) for place, name in enumerate(names) if name in widths]
    for row in chain(first, coming):
        yield "  ".join(row[place] if whole else _fitted(row[place], width) for place, width, whole in kept).rstrip()


def cell(value: object) -> str:
    """A time as the local one, null as nothing, and no character that is not printable."""
    if value is None:
        return ""
    return _shown(f"{value.astimezone():%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value))


def spreadsheet(value: object) -> object:
    """The value as a cell of a CSV file: what a spreadsheet would take for a formula is marked as a text, at the
    beginning of the cell and after each separator in it."""
    return _shown(_FORMULA.sub(r"\1'", value)) if isinstance(value, str) else value


def _shown(text: str) -> str:
    """A space for every space, and a question mark for whatever else is not printable: it may move the cursor."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if category(char) == "Zs" else "?" for char in text)


def _fitted(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"
