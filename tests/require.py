"""Tools that a test needs and that not every machine has. Where one is missing its tests skip with a sentence;
CRONLEASE_REQUIRE, a comma list that .ci/run sets, names those whose absence is a failure."""

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
    # A virtual environment that was not activated is not on the path.
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    return found or next((str(file) for place in places for file in sorted(_matching(place))), None) or _missing(name)


def need_package(name: str) -> Path:
    """Where the Python package is. It is not imported."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else _missing(name)


def _matching(place: str) -> Iterator[Path]:
    return Path("/").glob(place.removeprefix("/"))


def _missing(name: str) -> NoReturn:
    sentence = f"{name} is not on this machine"
    if name in os.environ.get("CRONLEASE_REQUIRE", "").split(","):
        pytest.fail(f"{sentence}, and CRONLEASE_REQUIRE names it", pytrace=False)
    pytest.skip(sentence)
