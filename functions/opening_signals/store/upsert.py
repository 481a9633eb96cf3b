"""Openings into the database: staged in short transactions of their own, merged in the one that is fenced.

The statements are in the .sql files beside this module. Nothing here opens or ends a transaction.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from opening_signals.feeds.model import Opening

_HERE = Path(__file__).parent
_SWEEP = (_HERE / "sweep.sql").read_bytes()
_TRUST = (_HERE / "trust.sql").read_bytes()
_RECOGNISE = (_HERE / "recognise.sql").read_bytes()
_COMPARE = (_HERE / "compare.sql").read_bytes()
_STAGE = (_HERE / "stage.sql").read_bytes()
_PLAN = (_HERE / "plan.sql").read_bytes()
_STAGED = (_HERE / "staged.sql").read_bytes()
_WRITE = (_HERE / "write.sql").read_bytes()
_BALANCE = (_HERE / "balance.sql").read_bytes()
_TURN = (_HERE / "turn.sql").read_bytes()
_REMEMBER = (_HERE / "remember_pages.sql").read_bytes()
_EMPTY = (_HERE / "empty.sql").read_bytes()


class StagingLostError(Exception):
    """The database was restarted after a crash, which empties the staging tables: what is left would close openings
    that are there."""


class Merged(NamedTuple):
    """What the merge did with the openings of the run, each counted once however often its feed had it."""

    fetched: int
    inserted: int
    updated: int
    closed: int = 0

    @property
    def unchanged(self) -> int:
        return self.fetched - self.inserted - self.updated

    def and_also(self, other: "Merged") -> "Merged":
        """Both together: a run may merge in pieces."""
        return Merged(*map(sum, zip(self, other, strict=True)))


async def sweep(conn: AsyncConnection[Any], request_id: UUID) -> int:
    """Removes what runs that are over left in the staging tables; says how many rows."""
    (swept,) = await _row(conn, _SWEEP, {"request_id": request_id})
    return int(swept)


async def stage(
    conn: AsyncConnection[Any], request_id: UUID, source: str, openings: Sequence[Opening], *, start: int
) -> None:
    """Stages a page of a source's openings: in full only those that are not stored just so, of the rest the keys.
    Start is how many the earlier pages had: the later of two wins."""
    if not openings:
        return
    external_ids = _array([opening.external_id for opening in openings])
    page = {
        "request_id": request_id,
        "source": source,
        "position": start,
        "external_ids": external_ids,
        "digest": _digest(external_ids, openings),
        "trusted": None,
    }
    if start == 0:
        (page["trusted"],) = await _row(conn, _TRUST, page)
    (known,) = await _row(conn, _RECOGNISE, page)
    if not known:
        await _compare(conn, page, {opening.external_id: opening for opening in openings})


async def _compare(conn: AsyncConnection[Any], page: dict[str, Any], latest: Mapping[str, Opening]) -> None:
    """Stages a page that is not known as a whole."""
    keys = list(latest)
    page["external_ids"] = _array(keys)
    page["content_hashes"] = b"".join([latest[key].content_hash for key in keys])
    (differing,) = await _row(conn, _COMPARE, page)
    if not differing:
        return
    async with conn.cursor().copy(_STAGE) as copy:
        for place in differing:
            await copy.write_row((page["request_id"], page["source"], page["position"], *latest[keys[place - 1]]))


async def merge(
    conn: AsyncConnection[Any], request_id: UUID, pages: Mapping[str, int], *, unsure: Collection[str] = ()
) -> Merged:
    """Merges what was staged of these sources, which were fetched to the end in so many pages, and empties the
    staging tables of this run. Closes what they no longer have, except where items could not be read (unsure). In the
    caller's transaction, which holds the rows of these sources (memory.lock); its planner settings are changed."""
    cursor = await conn.execute(_STAGED, {"request_id": request_id})
    staged = {source: (count, in_full) for source, count, in_full in await cursor.fetchall()}
    if any(staged.get(source, (0,))[0] != count for source, count in pages.items()):
        raise StagingLostError("what was staged is gone: the database was restarted")
    await conn.execute(_PLAN)
    run = {"request_id": request_id, "sources": list(pages)}
    inserted, updated = await _row(conn, _WRITE, run) if any(in_full for _, in_full in staged.values()) else (0, 0)
    settled = await _settled(conn, run)
    fetched, opened, closed = sum(settled.values()), 0, 0
    if rest := [source for source in pages if source not in settled]:
        run["sources"], run["closing"] = rest, [source for source in rest if source not in unsure]
        seen, opened, closed = await _row(conn, _TURN, run)
        fetched += seen
        settled |= await _settled(conn, run)
    await conn.execute(_REMEMBER, run | {"sources": list(settled)}, prepare=False)
    await conn.execute(_EMPTY, run)
    return Merged(fetched, inserted, updated + opened, closed)


async def _settled(conn: AsyncConnection[Any], run: dict[str, Any]) -> dict[str, int]:
    """The sources whose open openings are just what was staged of them, and how many they are."""
    return dict(await (await conn.execute(_BALANCE, run, prepare=False)).fetchall())


def _digest(external_ids: str, openings: Sequence[Opening]) -> bytes:
    """Equal only for pages that have the same openings in the same order."""
    hashes = [opening.content_hash for opening in openings]
    return hashlib.sha256(b"".join([len(hashes).to_bytes(8, "big"), *hashes, external_ids.encode()])).digest()


def _array(texts: Sequence[str]) -> str:
    """As Postgres writes an array of texts. Ours, because it is much faster than the general way."""
    joined = '","'.join(texts)
    if "\\" in joined or joined.count('"') > 2 * len(texts) - 2:
        joined = '","'.join([text.replace("\\", "\\\\").replace('"', '\\"') for text in texts])
    return f'{{"{joined}"}}'


async def _row(conn: AsyncConnection[Any], query: bytes, params: dict[str, Any]) -> Any:
    # Never a plan from another time: one made while a table was empty would read all of it for every page.
    row = await (await conn.execute(query, params, prepare=False)).fetchone()
    assert row is not None, "an aggregate answers one row"
    return row
