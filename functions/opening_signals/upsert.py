"""Openings into the database: staged in short transactions of their own, merged in the one that is fenced.

The statements are in the .sql files beside this module. Nothing here opens or ends a transaction.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from opening_signals.model import Opening

_HERE = Path(__file__).parent
_SWEEP = (_HERE / "sweep.sql").read_bytes()
_STAGE = (_HERE / "stage.sql").read_bytes()
_PLAN = (_HERE / "plan.sql").read_bytes()
_MERGE = (_HERE / "merge.sql").read_bytes()


class Merged(NamedTuple):
    """What the merge did with the openings of the run, each counted once however often its feed had it."""

    fetched: int
    inserted: int
    updated: int

    @property
    def unchanged(self) -> int:
        return self.fetched - self.inserted - self.updated


async def sweep(conn: AsyncConnection[Any], request_id: UUID) -> int:
    """Removes what runs that are over left in the staging table; says how many rows."""
    cursor = await conn.execute(_SWEEP, {"request_id": request_id})
    return cursor.rowcount


async def stage(
    conn: AsyncConnection[Any], request_id: UUID, source: str, openings: Sequence[Opening], *, start: int
) -> None:
    """Copies a page of a source's openings. Start is how many the earlier pages had: the later of two wins."""
    async with conn.cursor().copy(_STAGE) as copy:
        for position, opening in enumerate(openings, start):
            await copy.write_row((request_id, source, position, *opening))


async def merge(conn: AsyncConnection[Any], request_id: UUID, sources: Sequence[str]) -> Merged:
    """Merges what was staged of these sources and empties the staging table of this run, in the caller's
    transaction, whose planner settings it changes."""
    await conn.execute(_PLAN)
    # Never a plan from another time: the sizes of the tables and the sources decide which one is good.
    cursor = await conn.execute(_MERGE, {"request_id": request_id, "sources": list(sources)}, prepare=False)
    row = await cursor.fetchone()
    assert row is not None, "an aggregate answers one row"
    return Merged(*row)
