"""The one renderer of tables: rows as lines of text. Names and errors are not trusted: only printable characters get
through. On a terminal no line is longer than the terminal is wide; elsewhere nothing is left out."""

import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

from cronlease.observe.redact import printable

_WIDEST = 40
_GAP = "  "
# Only the first rows of a stream decide how wide its columns are: a stream of any length then takes no memory.
_MEASURED_ROWS = 500
# A column with this much of its text is still worth showing.
_ENOUGH = 12
_NARROWEST = 4


def lines(
    heading: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    cut: Collection[str] = (),
    spare: Sequence[str] = (),
    indent: str = "",
) -> Iterator[str]:
    """A line per row under a heading; see `layout`."""
    width = terminal_width()
    room = None if width is None else width - len(indent)
    for row in layout(heading, rows, room, cut=cut, spare=spare):
        yield (indent + _GAP.join(row.values())).rstrip()


def layout(
    heading: Sequence[str],
    rows: Iterable[Sequence[str]],
    room: int | None,
    *,
    cut: Collection[str] = (),
    spare: Sequence[str] = (),
) -> Iterator[dict[str, str]]:
    """The heading, a rule and the rows, as cells by column, each as wide as its column. A long cell is cut, except in
    the last column. Where room is short, columns in `spare` are dropped first, then those in `cut` get narrower."""
    texts = ([one_line(text) for text in row] for row in rows)
    measured = [list(heading), *islice(texts, None if isinstance(rows, Sequence) else _MEASURED_ROWS)]
    last = heading[-1]
    widths = {
        title: max(map(len, column)) if title == last else min(max(map(len, column)), _WIDEST)
        for title, column in zip(heading, zip(*measured, strict=True), strict=True)
    }
    if room is not None:
        widths = fit(widths, room, cut, spare)
    measured.insert(1, ["-" * min(widths.get(title, 0), _WIDEST) for title in heading])
    for row in chain(measured, texts):
        cells = dict(zip(heading, row, strict=True))
        yield {
            title: cells[title] if title == last and title not in cut else _fitted(cells[title], width)
            for title, width in widths.items()
        }


def terminal_width() -> int | None:
    """None where standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fit(widths: dict[str, int], room: int, cut: Collection[str], spare: Iterable[str]) -> dict[str, int]:
    """The columns that fit on a line: spare ones are dropped in their order until the others have room, then the
    widest of those that may be cut gets narrower."""
    kept = dict(widths)
    for title in spare:
        if _line_width([min(width, _ENOUGH) if name in cut else width for name, width in kept.items()]) > room:
            del kept[title]
    while _line_width(kept.values()) > room:
        widest = max((title for title in kept if title in cut), key=kept.__getitem__, default=None)
        if widest is None or kept[widest] <= _NARROWEST:
            break
        kept[widest] -= 1
    return kept


def _line_width(widths: Collection[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def one_line(text: str) -> str:
    """The text on one line, with a question mark for whatever might move the cursor."""
    return text if text.isprintable() else printable(" ".join(text.splitlines()).replace("\t", " "))


def _fitted(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"
