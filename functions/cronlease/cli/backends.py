"""Backends of the server that stand in the way of a schedule, and who can end them. Asks, and changes nothing."""

import shlex
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cronlease.cli.format import at, relative
from cronlease.db.connection import ask_sync
from cronlease.db.functions import Query

if TYPE_CHECKING:
    from psycopg import Connection


class Backend(NamedTuple):
    """One that holds the `row` in a fenced transaction after its lease, or the advisory lock of a `claim`. What it
    waits for and since when is None where this role may not see it."""

    function_name: str
    holds: str
    pid: int
    role: str | None
    application: str
    waits_for_client: bool | None
    since: datetime | None
    now: datetime
    overdue_at: datetime | None
    may_end: bool


def in_the_way(conn: "Connection[Any]", name: str | None = None) -> list[Backend]:
    """Of one schedule, or of all."""
    text = Path(__file__).with_name("backends.sql").read_text("utf-8")
    found: list[dict[str, Any]] = ask_sync(conn, Query(text, {"name": name}, lambda row: row[0]))
    times = ("since", "now", "overdue_at")
    return [Backend(**{**each, **{time: _read(each[time]) for time in times}}) for each in found]


def standing(backend: Backend) -> str:
    """Which backend it is, and what it does."""
    which = f"backend {backend.pid} of the role {backend.role}"
    if backend.application:
        which += f" ({backend.application})"
    since = f" since {at(backend.since)} ({relative(backend.since, backend.now)})" if backend.since else ""
    if backend.waits_for_client:
        return f"{which}, which has waited for its client{since}"
    return f"{which}, which has been at work{since}" if since else which


def ending(backend: Backend) -> str:
    """What ends it, and from when on that happens by itself."""
    by_hand = f"`select pg_terminate_backend({backend.pid})` as {backend.role} or as a superuser ends it"
    if backend.holds != "row":
        return by_hand
    overdue = backend.overdue_at
    by_itself = ""
    if overdue is not None:
        when = "the next" if overdue <= backend.now else f"from {at(overdue)} ({relative(overdue, backend.now)}) on a"
        by_itself = f"{when} hit that connects as {backend.role} ends it; "
    if backend.may_end:
        return f"{by_itself}`cronlease schedule unlock {shlex.quote(backend.function_name)}` ends it now"
    return by_itself + by_hand


def _read(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
