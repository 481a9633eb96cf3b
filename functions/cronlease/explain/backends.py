"""Server processes that keep a schedule from running, and who can end them. Reads only."""

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
    """It holds the `row` in a fenced transaction after its lease, or the advisory lock of a `claim`. What it waits
    for and since when is None where this role may not see it. A `prepared` transaction holds the row, too, under its
    gid and without a process."""

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
    """Answers them as one document; `name` is of one schedule, null for all. It names the schema of now."""
    return _SQL["blocking_backends"]


def blocking_backends(conn: "Connection[Any]", name: str | None = None) -> list[Backend]:
    """Of one schedule, or of all."""
    return ask_sync(conn, Query(statement(), {"name": name}, lambda row: to_backends(row[0])))


def to_backends(found: list[dict[str, Any]]) -> list[Backend]:
    times = ("since", "now", "overdue_at")
    return [
        Backend(**{**row, **{time: row[time] and datetime.fromisoformat(row[time]) for time in times}})
        for row in found
    ]


def description(backend: Backend) -> str:
    """Which backend it is, and what it does."""
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
    """What ends it, and from when on that happens by itself."""
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
