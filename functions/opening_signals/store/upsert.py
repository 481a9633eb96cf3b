"""Upserts openings: stages them in short transactions, merges them in the fenced one.

Nothing here opens or ends a transaction.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from cronlease.db.queries import load_queries
from opening_signals.feeds.model import Opening

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
# The range of positions of one reading: far more than a source may have items.
_READING = 1 << 32

# Whether to doubt an answer, by the source's name, the openings that were open, and how many of them are gone.
Judge = Callable[[str, int, int], bool]


class StagingLostError(Exception):
    """The database crashed and restarted, which empties the staging tables. A merge would close existing openings."""


class Merged(NamedTuple):
    """What the merge did with the openings of the run. Each counts once, however often its feed had it."""

    fetched: int
    inserted: int
    updated: int
    closed: int = 0

    @property
    def unchanged(self) -> int:
        return self.fetched - self.inserted - self.updated

    def and_also(self, other: "Merged") -> "Merged":
        """The sum: a run may merge in pieces."""
        return Merged(*map(sum, zip(self, other, strict=True)))


async def delete_stale_staging(conn: AsyncConnection[Any], request_id: UUID) -> int:
    """Deletes rows that finished runs left in the staging tables; returns how many."""
    (deleted,) = await _row(conn, "delete_stale_staging", {"request_id": request_id})
    return int(deleted)


class Staging:
    """Stages the openings of one source page by page, in the order of the feed; of two with the same key the later
    wins. `pages` counts the staged ones. Readings of the same source are staged side by side until discarded."""

    def __init__(self, request_id: UUID, source: str, reading: int = 0) -> None:
        self.pages = 0
        self._request_id = request_id
        self._source = source
        self._start = self._position = reading * _READING
        self._stored_pages: dict[bytes, Any] = {}  # fingerprints by digest

    async def add(self, conn: AsyncConnection[Any], openings: Sequence[Opening]) -> None:
        """Stages in full only the openings that differ from what is stored; of the others the keys."""
        if self.pages == 0:
            self._stored_pages = await _pairs(conn, "current_pages", {"source": self._source})
        latest = {opening.external_id: opening for opening in openings}
        page = self._page(latest)
        page["fingerprint"] = self._stored_pages.get(page["digest"])
        if page["fingerprint"] is None:
            places, page["fingerprint"] = await _row(conn, "compare_page", page)
            keys = list(latest)
            await self._copy(conn, [latest[keys[place - 1]] for place in places])
            page["differing"] = len(places)
        await conn.execute(QUERIES["stage_page"], page)
        self.pages += 1
        self._position += len(openings)

    async def discard(self, conn: AsyncConnection[Any]) -> None:
        if self.pages:
            reading = {"start": self._start, "stop": self._start + _READING}
            named = {"request_id": self._request_id, "source": self._source}
            await conn.execute(QUERIES["discard_reading"], named | reading)
        self.pages = 0

    def _page(self, latest: Mapping[str, Opening]) -> dict[str, Any]:
        """The row of a page. Its digest is equal only for pages with the same openings in the same order."""
        external_ids, count = _array(list(latest)), len(latest)
        hashes = b"".join([opening.content_hash + opening.payload_hash for opening in latest.values()])
        return {
            "request_id": self._request_id,
            "source": self._source,
            "position": self._position,
            "external_ids": external_ids,
            "hashes": hashes,
            "openings": count,
            "differing": 0,
            "digest": hashlib.sha256(count.to_bytes(8, "big") + hashes + external_ids.encode()).digest(),
        }

    async def _copy(self, conn: AsyncConnection[Any], openings: Sequence[Opening]) -> None:
        if openings:
            async with conn.cursor().copy(QUERIES["stage_openings"]) as copy:
                for opening in openings:
                    await copy.write_row((self._request_id, self._source, self._position, *opening))


async def merge(
    conn: AsyncConnection[Any],
    request_id: UUID,
    pages: Mapping[str, int],
    *,
    unsure: Collection[str] = (),
    judge: Judge = lambda *_: False,
) -> Merged:
    """Merges the staged openings of these sources, which were fetched to the end in that many pages, and deletes them
    from the staging tables. Closes openings that their source no longer has, except where items may have been missed
    (`unsure`) or where `judge` doubts the answer. Runs in the caller's transaction, which has locked these sources
    (lock_sources), and changes its planner settings."""
    run: dict[str, Any] = {"request_id": request_id, "sources": list(pages)}
    cursor = await conn.execute(QUERIES["staged_pages"], run)
    staged = {source: (count, differs) for source, count, differs in await cursor.fetchall()}
    if any(staged.get(source, (0,))[0] != count for source, count in pages.items()):
        raise StagingLostError("what was staged is gone: the database was restarted")
    await conn.execute(QUERIES["set_planner"])
    inserted = updated = reopened = closed = 0
    if any(differs for _, differs in staged.values()):
        inserted, updated = await _row(conn, "write_openings", run)
    in_sync = await _pairs(conn, "sources_in_sync", run)
    fetched = sum(in_sync.values())
    if rest := [source for source in pages if source not in in_sync]:
        closing = [source for source in rest if source not in unsure]
        missing = await missing_openings(conn, request_id, closing) if closing else {}
        closing = [source for source, (before, gone) in missing.items() if gone and not judge(source, before, gone)]
        seen, reopened, closed = await _row(conn, "close_and_reopen", run | {"sources": rest, "closing": closing})
        fetched += seen
    await conn.execute(QUERIES["remember_pages"], run, prepare=False)
    await conn.execute(QUERIES["delete_staged_pages"], run)
    return Merged(fetched, inserted, updated + reopened, closed)


async def missing_openings(
    conn: AsyncConnection[Any], request_id: UUID, sources: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """By source: how many openings were open before, and how many of them were not staged."""
    run = {"request_id": request_id, "sources": list(sources)}
    cursor = await conn.execute(QUERIES["missing_openings"], run, prepare=False)
    return {source: (before, gone) for source, before, gone in await cursor.fetchall()}


async def prune_changes(conn: AsyncConnection[Any], retention: timedelta) -> None:
    """Deletes old changes, a bounded number of them: the next run goes on."""
    await conn.execute(QUERIES["prune_changes"], {"retention": retention})


async def delete_staged(conn: AsyncConnection[Any], request_id: UUID) -> None:
    """Deletes the rows of this run that failed sources left in the staging tables."""
    await conn.execute(QUERIES["delete_staged"], {"request_id": request_id})


def _array(texts: Sequence[str]) -> str:
    """A Postgres array literal: much faster than psycopg's adapter."""
    joined = '","'.join(texts)
    if "\\" in joined or joined.count('"') > 2 * len(texts) - 2:
        joined = '","'.join([text.replace("\\", "\\\\").replace('"', '\\"') for text in texts])
    return f'{{"{joined}"}}'


async def _pairs(conn: AsyncConnection[Any], query: str, params: dict[str, Any]) -> dict[Any, Any]:
    return dict(await (await conn.execute(QUERIES[query], params, prepare=False)).fetchall())


# Never prepared: a plan made while a table was empty would read all of the table for every page.
async def _row(conn: AsyncConnection[Any], query: str, params: dict[str, Any]) -> Any:
    row = await (await conn.execute(QUERIES[query], params, prepare=False)).fetchone()
    assert row is not None, "an aggregate answers one row"
    return row
