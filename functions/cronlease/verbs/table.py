"""Rows as lines of text for a terminal. Names and errors are anybody's: only what is printable gets through."""

from collections.abc import Sequence
from unicodedata import category

_WIDEST = 40


def lines(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A line per row under a heading; a long cell is cut, except in the last column."""
    cells = [list(heading), *([shown(text) for text in row] for row in rows)]
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    return ["  ".join([*map(_fitted, row[:-1], widths[:-1]), row[-1]]).rstrip() for row in cells]


def shown(text: str) -> str:
    """The text on one line; a question mark stands for what might move the cursor."""
    if text.isprintable():
        return text
    joined = " ".join(text.splitlines())
    return "".join(char if char.isprintable() else " " if _is_space(char) else "?" for char in joined)


def _is_space(char: str) -> bool:
    return char == "\t" or category(char) == "Zs"


def _fitted(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"
