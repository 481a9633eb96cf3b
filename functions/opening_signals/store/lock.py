"""Whoever holds the row of a source may write the source: two writers take turns and never deadlock."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection, Connection

from cronlease.db.queries import load_queries

_STATEMENTS = load_queries(Path(__file__).with_suffix(".sql")).values()


async def lock_sources(conn: AsyncConnection[Any], names: Iterable[str]) -> None:
    """Locks the rows of these sources until the caller's transaction ends, and creates missing rows. Name all sources
    of the transaction in one call."""
    sources = {"sources": list(names)}
    for statement in _STATEMENTS:
        await conn.execute(statement, sources)


def lock_source_sync(conn: Connection[Any], name: str) -> None:
    for statement in _STATEMENTS:
        conn.execute(statement, {"sources": [name]})
