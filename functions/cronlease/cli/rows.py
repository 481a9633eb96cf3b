"""Reads schedules for the command line."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from cronlease.cli.questions import questions_of
from cronlease.cli.table import one_line
from cronlease.db.ask import ask_sync
from cronlease.db.functions import read_refresh_schedule
from cronlease.errors import UnknownSchedule
from cronlease.explain.backends import blocking_backends
from cronlease.explain.rows import Details, PastRun, Schedule, to_details, to_schedule

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["Details", "PastRun", "Schedule", "explaining_unknown", "list_schedules", "read_details"]

_ask = questions_of(__file__)


def read_details(conn: "Connection[Any]", name: str, *, runs: int = 5) -> Details:
    """Raises UnknownSchedule."""
    document = ask_sync(conn, read_refresh_schedule(name, runs))
    return to_details(name, document, blocking_backends(conn, name) if document["schedule"] else [])


def list_schedules(
    conn: "Connection[Any]", state: str | None, limit: int
) -> tuple[datetime, list[Schedule], list[Any]]:
    """The database's time, the schedules, and the same as the database wrote them."""
    document = _ask(conn, "list_schedules", state=state, limit=limit)
    rows = document["schedules"]
    return datetime.fromisoformat(document["now"]), list(map(to_schedule, rows)), rows


@contextmanager
def explaining_unknown(conn: "Connection[Any]", name: str) -> Iterator[None]:
    """An unknown name in the block ends the verb with a sentence that suggests a similar one."""
    try:
        yield
    except UnknownSchedule:
        near = difflib.get_close_matches(name, _ask(conn, "schedule_names"), n=1)
        hint = f'did you mean "{near[0]}"?' if near else "`cronlease schedule list` shows those there are"
        raise click.ClickException(one_line(f'there is no schedule named "{name}": {hint}')) from None
