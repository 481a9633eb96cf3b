"""Tools that a test needs and that not every machine has. A test whose tool is missing skips with a sentence.

CRONLEASE_REQUIRE, a comma list, names the tools whose absence is a failure. CRONLEASE_HIDE, a comma list or `all`,
names the tools to treat as absent, so that CI sees what a machine without them sees.
"""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest


def need(name: str, *places: str) -> str:
    """Where the program is: on the path, beside this Python, or the first of the places (patterns) that exists."""
    if _is_hidden(name):
        _missing(name)
    # A virtual environment that was not activated is not on the path.
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    return found or next((str(file) for place in places for file in sorted(_matching(place))), None) or _missing(name)


def need_package(name: str) -> Path:
    """Where the Python package is. It is not imported."""
    spec = None if _is_hidden(name) else importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else _missing(name)


def need_postgres() -> Path:
    """Where the programs of this machine's own PostgreSQL server are."""
    return Path(need("initdb", "/usr/lib/postgresql/*/bin/initdb")).resolve().parent


def _is_hidden(name: str) -> bool:
    hidden = os.environ.get("CRONLEASE_HIDE", "").split(",")
    return name in hidden or "all" in hidden


def _matching(place: str) -> Iterator[Path]:
    return Path("/").glob(place.removeprefix("/"))


def _missing(name: str) -> NoReturn:
    sentence = f"{name} is not on this machine"
    if name in os.environ.get("CRONLEASE_REQUIRE", "").split(","):
        pytest.fail(f"{sentence}, and CRONLEASE_REQUIRE names it", pytrace=False)
    pytest.skip(sentence)
