"""Rows as lines of text for a terminal. Names and errors are anybody's: only what is printable gets through."""

import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from unicodedata import category

WIDEST = 40
_GAP = 2
# A column with so much of its text says something; less than the other is none.
_ENOUGH = 12
_NARROWEST = 4


def lines(
    heading: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    cut: Collection[str] = (),
    spare: Sequence[str] = (),
    indent: str = "",
) -> list[str]:
    """A line per row under a heading; a long cell is cut, except in the last column. On a terminal no line is longer
    than that is wide, see fit."""
    cells = [list(heading), *([shown(text) for text in row] for row in rows)]
    found = [max(map(len, column)) for column in zip(*cells, strict=True)]
    widths = dict(zip(heading, [*(min(width, WIDEST) for width in found[:-1]), found[-1]], strict=True))
    if (room := terminal_width()) is not None:
        widths = fit(widths, room - len(indent), cut, spare)
    cells.insert(1, ["-" * min(widths.get(title, 0), WIDEST) for title in heading])
    kept = [(place, widths[title]) for place, title in enumerate(heading) if title in widths]
    return [(indent + "  ".join(fitted(row[place], width) for place, width in kept)).rstrip() for row in cells]


def terminal_width() -> int | None:
    """Of standard output; whatever else that is takes lines of any length."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fit(widths: dict[str, int], room: int, cut: Collection[str], spare: Iterable[str]) -> dict[str, int]:
    """The columns that fit on a line: the spare ones go in their order, for as long as the others have no room, and
    then of those that may be cut the widest gets narrower."""
    left = dict(widths)
    for title in spare:
        if _line([min(width, _ENOUGH) if name in cut else width for name, width in left.items()]) > room:
            del left[title]
    while _line(left.values()) > room:
        widest = max((title for title in left if title in cut), key=left.__getitem__, default=None)
        if widest is None or left[widest] <= _NARROWEST:
            break
        left[widest] -= 1
    return left


def _line(widths: Collection[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def shown(text: str) -> str:
    """The text on one line; a question mark stands for what might move the cursor."""
    if text.isprintable():
        return text
    joined = " ".join(text.splitlines())
    return "".join(char if char.isprintable() else " " if _is_space(char) else "?" for char in joined)


def _is_space(char: str) -> bool:
    return char == "\t" or category(char) == "Zs"


def fitted(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"
