"""Version 0.1 and this one, as code that can be started. Version 0.1 is taken from the repository's own history."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.conftest import FUNCTIONS
from tests.require import need

JOBS = Path(__file__).with_name("upgrade_jobs.py")
HIT = ("tick", "linger", "refresh_opening_signals")
_COMMIT = "2b9fe17"


class Version(NamedTuple):
    """A name, a Python, the folder of the code, the module of its command line, and the target of each server."""

    name: str
    python: str
    functions: Path
    module: str
    targets: tuple[str, ...]

    def command(self, *words: str) -> list[str]:
        return [self.python, "-m", self.module, *words]


def this_version() -> Version:
    return Version("this", sys.executable, FUNCTIONS, "cronlease.cli.main", HIT[:1])


def version_0_1(functions: Path, python: str = sys.executable) -> Version:
    """It serves one function a process."""
    return Version("0.1", python, functions, "cronlease", HIT)


def from_history(place: Path) -> Version:
    """Skips where there is no history, as in an archive or a shallow clone."""
    git, root = need("git"), FUNCTIONS.parent
    command = [git, "-C", str(root), "archive", "--format=tar", _COMMIT, "functions", "schema"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"commit {_COMMIT}, which is version 0.1, is not in the history of this copy")
    subprocess.run([need("tar"), "-x", "-C", str(place)], input=archive.stdout, check=True)
    return version_0_1(place / "functions")
