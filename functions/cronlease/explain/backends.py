"""Server processes that keep a schedule from running, and how to end them. Reads only."""

import shlex
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cronlease.db.ask import ask_sync
from cronlease.db.queries import Query, load_queries
from cronlease.explain.format import at, relative

if TYPE_CHECKING:
    from psycopg import Connection


_SQL = load_queries(Path(__file__).with_suffix(".sql"))


class Backend(NamedTuple):
    """Holds the `row` in a fenced transaction that outlasts its lease, or the advisory lock of a `claim`. A
    `prepared` transaction also holds the row, under its gid and without a process. `waits_for_client` and `since`
    are None if this role may not see them."""

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
    gid: str | None = None

    @property
    def holds_row(self) -> bool:
        return self.holds in ("row", "prepared")


def statement() -> str:
    """Answers one JSON document; the parameter `name` is a schedule's, or null for all. Uses the current schema."""
    return _SQL["blocking_backends"]


def blocking_backends(conn: "Connection[Any]", name: str | None = None) -> list[Backend]:
    """Those of one schedule, or of all."""
    return ask_sync(conn, Query(statement(), {"name": name}, lambda row: to_backends(row[0])))


def to_backends(rows: list[dict[str, Any]]) -> list[Backend]:
    times = ("since", "now", "overdue_at")
    return [
        Backend(**{**row, **{time: row[time] and datetime.fromisoformat(row[time]) for time in times}})
        for row in rows
    ]


def description(backend: Backend) -> str:
    """Which backend it is, and what it is doing."""
    if backend.gid is not None:
        since = f"{at(backend.since)} ({relative(backend.since, backend.now)})" if backend.since else "before"
        return f"the transaction {backend.gid!r}, which the role {backend.role} prepared {since}"
    which = f"backend {backend.pid} of the role {backend.role}"
    if backend.application:
        which += f" ({backend.application})"
    since = f" since {at(backend.since)} ({relative(backend.since, backend.now)})" if backend.since else ""
    if backend.waits_for_client:
        return f"{which}, which has waited for its client{since}"
    return f"{which}, which has been at work{since}" if since else which


def how_to_end(backend: Backend) -> str:
    """How to end it, and when that happens by itself."""
    if backend.gid is not None:
        literal = "'" + backend.gid.replace("'", "''") + "'"
        return f"`rollback prepared {literal}` as {backend.role} or as a superuser, in this database, ends it"
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
