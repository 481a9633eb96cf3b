"""Sources that are no longer in the file. Their openings stay open: a typo in the file must not lose data. Every run
names them until a person forgets them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection, Connection

from cronlease.db.queries import load_queries
from opening_signals.store.lock import lock_source_sync

_QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
_MOST_COUNTED = 1000

Orphan = tuple[str, int]


async def orphaned_sources(conn: AsyncConnection[Any], names: Iterable[str]) -> list[Orphan]:
    """The known sources that are not among these names, with their open openings, counted up to 1000."""
    return await (await conn.execute(_QUERIES["orphaned_sources"], {"sources": list(names)})).fetchall()


def orphaned_sources_sync(conn: Connection[Any], names: Iterable[str]) -> list[Orphan]:
    return conn.execute(_QUERIES["orphaned_sources"], {"sources": list(names)}).fetchall()


def sentence(orphans: Sequence[Orphan]) -> str | None:
    """One sentence about them; None without any."""
    if not orphans:
        return None
    each = ", ".join(
        f"{name} ({count if count < _MOST_COUNTED else f'{_MOST_COUNTED} or more'})" for name, count in orphans
    )
    return f"open openings of sources that are not in the file: {each}; cronlease sources forget NAME closes them"


def source_exists(conn: Connection[Any], name: str) -> bool:
    row = conn.execute(_QUERIES["source_exists"], {"source": name}).fetchone()
    return row is not None and bool(row[0])


def forget_source(conn: Connection[Any], name: str) -> int:
    """Closes the open openings of the source, deletes its state, and returns how many were closed. Locks like a
    merge: a run that is writing this source comes first."""
    with conn.transaction():
        conn.execute("select set_config('lock_timeout', '15s', true)")
        lock_source_sync(conn, name)
        row = conn.execute(_QUERIES["forget_source"], {"source": name}).fetchone()
    assert row is not None, "an aggregate answers one row"
    return int(row[0])
