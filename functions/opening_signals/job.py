"""The job: load the sources, fetch and stage them all at once, merge what is complete, report.

No transaction is open while it waits on the network, and one bad source never fails the others.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx2
import psycopg

from opening_signals import upsert
from opening_signals.catalogue import load
from opening_signals.fetch import AT_ONCE, client, fetch
from opening_signals.model import FeedError, Source
from opening_signals.sources import KINDS

if TYPE_CHECKING:
    from cronlease import Run

_SOURCE_SHARE = 0.6
_STAGING_SHARE = 0.8
_NO_SOURCES = "there are no sources yet: name a TOML file with a [[source]] in CRONLEASE_SOURCES"
# Below the logger whose handler writes our lines, with the fields where that handler looks for them.
_logger = logging.getLogger("cronlease.opening_signals")


class AllSourcesFailedError(Exception):
    """Not one source could be fetched: there is nothing to merge."""


@dataclass(slots=True)
class Fetched:
    """How far one source came. Without an error all of it is staged."""

    source: Source
    staged: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    error: str | None = None


async def refresh(run: "Run") -> None:
    """Fetches the openings of every source and upserts them. Ends as partial when only some could be fetched."""
    sources = load(os.environ.get("CRONLEASE_SOURCES"))
    if not sources:
        run.report(fetched=0, inserted=0, updated=0, unchanged=0, closed=0, hint=_NO_SOURCES)
        return
    async with run.connection() as conn:
        await upsert.sweep(conn, run.request_id)
    results = await _Collector(run).collect(sources)
    failed = [result for result in results if result.error]
    if len(failed) == len(results):
        raise AllSourcesFailedError(f"every source failed: {_listed(failed)}")
    async with run.commit() as conn:
        complete = [result.source.name for result in results if not result.error]
        merged = await upsert.merge(conn, run.request_id, complete)
        run.report(
            fetched=merged.fetched,
            inserted=merged.inserted,
            updated=merged.updated,
            unchanged=merged.unchanged,
            closed=0,
            hint=_rejections(results),
        )
        if failed:
            run.partial(f"{len(failed)} of {len(results)} sources failed: {_listed(failed)}")


class _Collector:
    """Fetches, parses and stages all sources of one run within its time."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._lease = run.lease.total_seconds()
        self._ends_at = asyncio.get_running_loop().time() + self._lease * _STAGING_SHARE
        self._turn = asyncio.Semaphore(AT_ONCE)
        # One source at a time has a connection: the hits that arrive meanwhile need theirs from the same pool.
        self._staging = asyncio.Lock()

    async def collect(self, sources: Iterable[Source]) -> list[Fetched]:
        async with client() as http, asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._collect(http, source)) for source in sources]
        return [task.result() for task in tasks]

    async def _collect(self, http: httpx2.AsyncClient, source: Source) -> Fetched:
        """Never raises: whatever one source does, the others go on."""
        result = Fetched(source)
        cause: Exception | None = None
        async with self._turn:
            now = asyncio.get_running_loop().time()
            until = min(now + self._lease * _SOURCE_SHARE, self._ends_at)
            try:
                async with asyncio.timeout_at(until):
                    await self._stage(await fetch(http, source), result)
            except TimeoutError:
                result.error = f"was not done after {max(until - now, 0):.3g} s"
            except FeedError as error:
                result.error = str(error)
            except psycopg.Error as error:
                result.error = f"its openings could not be staged: {error.diag.message_primary or error}"
            except Exception as error:
                # The text goes to the log only: nobody knows what is in it.
                cause = error
                result.error = f"an unforeseen error, {type(error).__name__}: see the log"
        self._say(result, cause)
        return result

    async def _stage(self, body: bytes, result: Fetched) -> None:
        """Page by page. Parsed in a thread, so that the hits that arrive meanwhile are answered."""
        pages = KINDS[result.source.kind].pages(result.source, body, result.rejected)
        run = self._run
        while page := await asyncio.to_thread(next, pages, None):
            async with self._staging, run.connection() as conn:
                await upsert.stage(conn, run.request_id, result.source.name, page, start=result.staged)
            result.staged += len(page)

    def _say(self, result: Fetched, cause: Exception | None) -> None:
        name = result.source.name
        fields: dict[str, Any] = {"source": name, "request_id": str(self._run.request_id)}
        if result.rejected:
            fields["rejected"] = dict(result.rejected)
            _warn(f"{result.rejected.total()} items of source {name} were left out", "items_rejected", fields)
        if result.error:
            _warn(f"Source {name} failed: {result.error}", "source_failed", fields, cause)


def _warn(message: str, action: str, fields: dict[str, Any], cause: Exception | None = None) -> None:
    _logger.warning(message, exc_info=cause, extra={"cronlease_fields": {"action": action, **fields}})


def _listed(failed: Iterable[Fetched]) -> str:
    return "; ".join(f"{result.source.name} ({result.error})" for result in failed)


def _rejections(results: Iterable[Fetched]) -> str | None:
    """One sentence on the items that were left out, with the commonest reason of each source."""
    said = [
        f"{result.source.name} {result.rejected.total()} ({result.rejected.most_common(1)[0][0]})"
        for result in results
        if result.rejected
    ]
    return f"items left out: {'; '.join(said)}" if said else None
