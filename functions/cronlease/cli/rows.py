"""Reads schedules for the command line."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

from cronlease.db.ask import ask_sync
from cronlease.db.conninfo import SyncConnection
from cronlease.db.questions import Questions
from cronlease.errors import UnknownSchedule
from cronlease.explain.rows import Details, Schedule, to_schedule
from cronlease.explain.rows import read_details as details_of

_ask = Questions(__file__)


def read_details(conn: SyncConnection, name: str, *, runs: int = 5) -> Details:
    """Raises UnknownSchedule."""
    if (details := ask_sync(conn, details_of(name, runs))) is None:
        raise UnknownSchedule(name)
    return details


def list_schedules(conn: SyncConnection, state: str | None, limit: int) -> tuple[datetime, list[Schedule], list[Any]]:
    """The database's time, the schedules, and the same rows as the database wrote them."""
    document = _ask(conn, "list_schedules", state=state, limit=limit)
    rows = document["schedules"]
    return datetime.fromisoformat(document["now"]), list(map(to_schedule, rows)), rows


@contextmanager
def explaining_unknown(conn: SyncConnection, name: str) -> Iterator[None]:
    """An unknown name in the block ends the verb with a sentence that suggests a similar one."""
    try:
        yield
    except UnknownSchedule:
        near = difflib.get_close_matches(name, _ask(conn, "schedule_names"), n=1)
        hint = f'did you mean "{near[0]}"?' if near else "`cronlease schedule list` lists them"
        raise click.ClickException(f'there is no schedule named "{name}": {hint}') from None
