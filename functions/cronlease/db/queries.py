"""Reads the SQL that a module owns: one file beside it, a section per statement, each opened by `-- name: word`."""

import re
from pathlib import Path
from typing import LiteralString, cast

_SECTION = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load_queries(path: Path) -> dict[str, LiteralString]:
    """The statements of the file by name. What stands before the first section is a comment about all of them."""
    pieces = _SECTION.split(path.read_text("utf-8"))
    names, texts = pieces[1::2], pieces[2::2]
    assert len(names) == len(set(names)), f"{path.name} names a statement twice"
    # As literal as the source is: nobody's input is in these files.
    return cast("dict[str, LiteralString]", dict(zip(names, (text.strip() + "\n" for text in texts), strict=True)))
