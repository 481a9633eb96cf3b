"""The packages that have SQL of their own: the mechanism's, and those that actions bring along.

An installed package says under the entry point group `cronlease.schema` which action needs its tables: the entry's
name is the action, its value the package. Its files are in `schema/` inside the package, or in `schema/<package>/` of
the checkout that it is imported from.
"""

import functools
import importlib.util
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path

OURS = "cronlease"
_GROUP = "cronlease.schema"
# The way out that leaves other people's tables alone, for a sentence.
APART = "leave it and set CRONLEASE_SCHEMA to a schema of cronlease's own"


class MigrationError(Exception):
    """The schema could not be applied; nothing was changed. One sentence that says what to do."""


@functools.cache
def by_action() -> Mapping[str, str]:
    """Which package each action needs."""
    return {entry.name: entry.value for entry in entry_points(group=_GROUP)}


def installed() -> tuple[str, ...]:
    """All packages, ours first: the others may use its tables."""
    return (OURS, *sorted(set(by_action().values())))


def folder_of(package: str) -> Path:
    """Where its files are; raises MigrationError."""
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations if spec else None) or ():
        for folder in (Path(place) / "schema", Path(place).parent.parent / "schema" / package):
            if folder.is_dir():
                return folder
    raise MigrationError(f"the schema of {package} was not found: install it from its wheel, or run from a checkout")


def of_actions(actions: Iterable[str]) -> tuple[str, ...]:
    """Ours, and the packages that these actions need."""
    return (OURS, *sorted({by_action()[action] for action in actions if action in by_action()}))


def came_with(package: str) -> dict[str, list[str]]:
    """Its functions and views that came after version 0.1, by the migration that came with them."""
    import tomllib

    file = folder_of(package) / "came_with.toml"
    return tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}
