"""What a job brings for its emulation: sample feeds, rows to show, rules of its own for the verdict.

An installed package offers a module under the entry point group `cronlease.emulator`, by the name of the function
that it is for. Without one a function is emulated all the same.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from psycopg import Connection

from cronlease.emulator.function import EmulatorError
from cronlease.emulator.loopback import LoopbackServer

_GROUP = "cronlease.emulator"
# A title, the query, the columns that may be cut on a narrow terminal, those left out first.
Table = tuple[str, str, tuple[str, ...], tuple[str, ...]]


class Brought(Protocol):
    """The module's functions."""

    def feeds(self, folder: Path, env: dict[str, str], latency: float) -> LoopbackServer:
        """What the function reads here, not started yet. Names it in the environment, by files in the folder. The
        first answer of a feed takes that many seconds."""

    def variables(self) -> list[str]:
        """What `feeds` puts into the environment."""

    def refusal(self, conn: Connection[Any], env: Mapping[str, str]) -> tuple[str, str] | None:
        """Why samples must not get into that database, and what else could be done; None where they may."""

    def tables(self) -> list[Table]:
        """Rows to show beside the schedules."""

    def violations(self) -> str:
        """The query for what is wrong since %(since)s, a row each: the rule that was broken, and by what."""


def brought_for(functions: Iterable[str]) -> tuple[Brought, ...]:
    """What the packages installed here bring for these functions. Raises EmulatorError."""
    wanted = set(functions)
    return tuple(_loaded(entry) for entry in entry_points(group=_GROUP) if entry.name in wanted)


def _loaded(entry: Any) -> Brought:
    try:
        module: Brought = entry.load()
    except (ImportError, AttributeError) as error:
        raise EmulatorError(f"what {entry.value} brings for {entry.name} cannot be loaded: {error}") from error
    return module
