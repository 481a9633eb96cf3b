"""What a package adds to the emulation of its function: sample feeds, rows to show, rules for the verdict.

An installed package registers a module under the entry point group `cronlease.emulator`, by the name of the function.
Functions without one are emulated too.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from psycopg import Connection

from cronlease.emulator.function import EmulatorError
from cronlease.emulator.loopback import LoopbackServer

_GROUP = "cronlease.emulator"
# Title, query, columns to shorten on a narrow terminal, columns to drop first.
Table = tuple[str, str, tuple[str, ...], tuple[str, ...]]


class Extension(Protocol):
    """The functions of such a module."""

    def feeds(self, folder: Path, env: dict[str, str], latency: float) -> LoopbackServer:
        """A server, not started yet, for what the function reads. Adds its addresses to `env`, by way of files in
        `folder`. The first answer of each feed takes `latency` seconds."""

    def variables(self) -> list[str]:
        """The environment variables that `feeds` sets."""

    def refusal(self, conn: Connection[Any], env: Mapping[str, str]) -> tuple[str, str] | None:
        """Why samples must not be written to that database, and what to do instead; None if they may be."""

    def tables(self) -> list[Table]:
        """Rows to show beside the schedules."""

    def violations(self) -> str:
        """A query with one row per violation since %(since)s: the broken rule, and what broke it."""


def extensions_for(functions: Iterable[str]) -> tuple[Extension, ...]:
    """The installed extensions for these functions. Raises EmulatorError."""
    wanted = set(functions)
    return tuple(_loaded(entry) for entry in entry_points(group=_GROUP) if entry.name in wanted)


def _loaded(entry: Any) -> Extension:
    try:
        module: Extension = entry.load()
    except (ImportError, AttributeError) as error:
        raise EmulatorError(
            f"the emulator extension {entry.value} for {entry.name} cannot be loaded: {error}"
        ) from error
    return module
