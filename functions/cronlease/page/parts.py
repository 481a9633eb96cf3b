"""What others add to the page: a job's own part, found by its entry point, and the emulator's verdict.

A job registers a module under the entry point group `cronlease.page` and the name of its action:

    TITLE       a heading
    STATEMENT   one SQL statement that answers one row with one JSON document, of bounded size
    table(document) -> (heading, rows)      cells are texts, times or None, and escaped like everything else
"""

import json
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from cronlease.db.queries import Query
from cronlease.errors import DatabaseTrouble
from cronlease.observe import logs
from cronlease.process.emulated import VERDICT

_GROUP = "cronlease.page"
_LARGEST_VERDICT = 100_000


class Part(NamedTuple):
    title: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str | int | datetime | None]]
    # Why there is no table.
    trouble: str | None = None


class Verdict(NamedTuple):
    lines: list[str]
    violations: int


async def of_action(action: str, ask: Callable[[Query[Any]], Awaitable[Any]]) -> Part | None:
    """None if the action's job adds nothing. A part that cannot be made does not spoil the rest of the page."""
    for entry in entry_points(group=_GROUP, name=action):
        title = action
        try:
            module: Any = entry.load()
            title = module.TITLE
            heading, rows = module.table(await ask(Query(module.STATEMENT, {}, lambda row: row[0])))
        except DatabaseTrouble as trouble:
            logs.log(logging.WARNING, f"The page's part of {action} could not be read: {trouble}", action="page_part")
            return Part(title, (), (), "It could not be read: the log says why.")
        except Exception as error:
            # A job's own code: whatever it does wrong, the rest of the page is shown.
            logs.log(logging.ERROR, f"The page's part of {action} failed: {error}", action="page_part", cause=error)
            return Part(title, (), (), "It could not be shown: the log says why.")
        return Part(title, heading, rows)
    return None


def verdict() -> Verdict | None:
    """So far, of the emulator that has started this process."""
    place = os.environ.get(VERDICT)
    if not place:
        return None
    try:
        with Path(place).open(encoding="utf-8") as file:
            verdict = json.loads(file.read(_LARGEST_VERDICT))
        return Verdict([str(line) for line in verdict["lines"]], int(verdict["violations"]))
    except (OSError, ValueError, KeyError, TypeError):
        # Not written yet.
        return None
