"""Which field of an opening changed, from what to what. The merge writes it; here it is deleted when it is old."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

from cronlease.db.queries import load_queries

_QUERIES = load_queries(Path(__file__).with_suffix(".sql"))


async def prune_changes(conn: AsyncConnection[Any], retention: timedelta) -> None:
    """Deletes changes that are older than that, a bounded number at a time: the next run goes on."""
    await conn.execute(_QUERIES["prune_changes"], {"retention": retention})
