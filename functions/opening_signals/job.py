"""The job: load the sources, fetch and stage them all at once, merge what is complete, report. Sources that the last
run may have died of come after that, one at a time.

No transaction is open while it waits on the network, and one bad source never fails the others.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx2
import psycopg

from opening_signals import settings
from opening_signals.collect import Collected, collect
from opening_signals.feeds.model import FeedError, Opening, Source
from opening_signals.http.fetch import client
from opening_signals.sources_file import load
from opening_signals.store import suspects, upsert
from opening_signals.store.orphaned_sources import sentence, strays
from opening_signals.store.source_state import Memory, lock, recall, remember

if TYPE_CHECKING:
    from cronlease import Run

_SOURCE_SHARE = 0.6
_STAGING_SHARE = 0.8
_NO_SOURCES = "there are no sources yet: name a TOML file with a [[source]] in CRONLEASE_SOURCES"
# Below the logger whose handler writes our lines, with the fields where that handler looks for them.
_logger = logging.getLogger("cronlease.opening_signals")


class AllSourcesFailedError(Exception):
    """Not one source could be fetched: there is nothing to merge."""


async def refresh(run: "Run") -> None:
    """Fetches the openings of every source and upserts them. Ends as partial when some could not be fetched, or were
    left alone because they failed before."""
    at_once = settings.at_once()
    sources = load(settings.sources_file())
    if not sources:
        run.report(fetched=0, inserted=0, updated=0, unchanged=0, closed=0, hint=_NO_SOURCES)
        return
    async with run.connection() as conn:
        await upsert.sweep(conn, run.request_id)
        memories = await recall(conn, sources)
        forgotten = sentence(await strays(conn, memories))
    blamed = suspects.blamed(sources, memories)
    asked = _due(sources, memories, blamed)
    collector = _Collector(run, memories, at_once, len(asked))
    store = _Store(run, collector.pages, memories)
    results, unstored = await _collect_all(run, collector, store, blamed, suspects.batches(asked, memories))
    names = {result.source.name for result in results}
    waiting = [memory for name, memory in memories.items() if name not in names]
    failed = [result for result in results if result.error]
    if len(failed) == len(results):
        async with run.transaction() as conn:
            await store.add(conn, unstored)
        which = "every source that was asked" if waiting else "every source"
        raise AllSourcesFailedError(f"{which} failed: {_listed(failed)}{_resting(waiting)}")
    run.report(hint=_hint(results, forgotten))
    if failed or waiting:
        run.partial(_left_out(len(sources), failed, waiting))
    async with run.commit() as conn:
        await store.add(conn, unstored)
        store.report()


def _due(sources: Sequence[Source], memories: Mapping[str, Memory], blamed: Sequence[Collected]) -> list[Source]:
    """Those to ask now, the healthy first: the others must not take their turn. When all of them wait, all are
    asked: the run has waited for them already."""
    not_asked = {result.source.name for result in blamed}
    usable = [source for source in sources if source.name not in not_asked]
    due = [source for source in usable if not memories[source.name].waits_until] or usable
    return sorted(due, key=lambda source: memories[source.name].failures)


async def _collect_all(
    run: "Run", collector: "_Collector", store: "_Store", blamed: list[Collected], batches: list[list[Source]]
) -> tuple[list[Collected], list[Collected]]:
    """How all of them did, and of these the ones that are not stored yet. What comes before a suspect is stored
    before it is fetched: the process may die of it."""
    for result in blamed:
        collector.say(result)
    results, unstored = blamed, blamed
    for number, batch in enumerate(batches, start=1):
        found = await collector.collect(batch)
        results, unstored = [*results, *found], [*unstored, *found]
        if number < len(batches):
            async with run.transaction() as conn:
                await store.add(conn, unstored)
            unstored = []
    return results, unstored


class _Store:
    """Merges what was staged, in one fenced transaction or in several, and remembers how each source did."""

    def __init__(self, run: "Run", pages: Mapping[str, int], memories: Mapping[str, Memory]) -> None:
        self._run = run
        self._pages = pages
        self._memories = memories
        self._merged = upsert.Merged(0, 0, 0)

    async def add(self, conn: Any, results: Sequence[Collected]) -> None:
        """Only what was fetched to the end and read to the last item may close an opening, and of a source without
        news nothing is staged."""
        run = self._run
        await lock(conn, [result.source.name for result in results])
        complete = [result.source.name for result in results if not result.error and not result.not_modified]
        if complete:
            run.progress(f"writing what changed of {sum(result.openings for result in results):,} openings")
            unsure = [result.source.name for result in results if result.rejected]
            pages = {name: self._pages[name] for name in complete}
            with run.span("merge", sources=len(complete)):
                merged = await upsert.merge(conn, run.request_id, pages, unsure=unsure)
            self._merged = self._merged.and_also(merged)
        await remember(conn, results, self._wait)

    def report(self) -> None:
        merged = self._merged
        self._run.report(
            fetched=merged.fetched,
            inserted=merged.inserted,
            updated=merged.updated,
            unchanged=merged.unchanged,
            closed=merged.closed,
        )

    def _wait(self, name: str) -> timedelta:
        return self._run.backoff(self._memories[name].failures + 1)


class _Collector:
    """Fetches, parses and stages all sources of one run within its time."""

    def __init__(self, run: "Run", memories: Mapping[str, Memory], at_once: int, sources: int) -> None:
        self._run = run
        self._memories = memories
        self.pages: Counter[str] = Counter()
        self._lease = run.lease.total_seconds()
        self._ends_at = asyncio.get_running_loop().time() + self._lease * _STAGING_SHARE
        self._turn = asyncio.Semaphore(at_once)
        # One source at a time has a connection: the hits that arrive meanwhile need theirs from the same pool.
        self._staging = asyncio.Lock()
        self._sources = sources
        self._openings = self._done = 0

    async def collect(self, sources: Sequence[Source]) -> list[Collected]:
        async with client() as http, asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._collect(http, source)) for source in sources]
        return [task.result() for task in tasks]

    async def _collect(self, http: httpx2.AsyncClient, source: Source) -> Collected:
        staged = 0

        async def stage(page: list[Opening]) -> None:
            nonlocal staged
            await self._stage(source, page, staged)
            staged += len(page)
            self._openings += len(page)
            self._tell()

        async with self._turn:
            memory, now = self._memories[source.name], asyncio.get_running_loop().time()
            until = min(now + self._lease * _SOURCE_SHARE, self._ends_at)
            if now < until:
                await self._note(suspects.note, source, alone=memory.is_suspect)
            with self._run.span("fetch", source=source.name, kind=source.kind) as span:
                result = await collect(http, source, validators=memory.validators, take=stage, until=until)
                span.note(http_status=result.status, pages=result.pages, items=result.items)
                if result.error:
                    span.fail(result.error)
            if result.asked:
                await self._note(suspects.end, source)
        self.say(result)
        self._done += 1
        self._tell()
        return result

    def _tell(self) -> None:
        self._run.progress(f"{self._openings:,} openings fetched, sources", self._done, self._sources)

    async def _stage(self, source: Source, page: list[Opening], start: int) -> None:
        run = self._run
        try:
            async with self._staging, run.connection() as conn:
                await upsert.stage(conn, run.request_id, source.name, page, start=start)
                self.pages[source.name] += 1
        except psycopg.Error as error:
            raise FeedError(f"its openings could not be staged: {error.diag.message_primary or error}") from error

    async def _note(self, statement: Callable[..., Awaitable[None]], source: Source, **more: bool) -> None:
        # A note matters only when the process dies: a fetch goes on without it.
        with suppress(psycopg.Error):
            async with self._staging, self._run.connection() as conn:
                await statement(conn, self._run.request_id, source, **more)

    def say(self, result: Collected) -> None:
        name, request_id = result.source.name, str(self._run.request_id)

        def log(level: int, message: str, action: str, cause: Exception | None = None, **reasons: Any) -> None:
            fields = {"action": action, "source": name, "request_id": request_id, **reasons}
            _logger.log(level, message, exc_info=cause, extra={"cronlease_fields": fields})

        if result.repaired:
            message = f"Source {name}: {_many(result.repaired, 'repair', 'repairs')}"
            log(logging.INFO, message, "items_repaired", repaired=dict(result.repaired))
        if result.rejected:
            message = f"Source {name}: {_many(result.rejected, 'item was', 'items were')} left out"
            log(logging.WARNING, message, "items_rejected", rejected=dict(result.rejected))
        if result.error:
            log(logging.WARNING, f"Source {name} failed: {result.error}", "source_failed", result.cause)


def _many(reasons: Counter[str], one: str, more: str) -> str:
    return f"{reasons.total()} {one if reasons.total() == 1 else more}"


def _listed(failed: Iterable[Collected]) -> str:
    return "; ".join(f"{result.source.name} ({result.error})" for result in failed)


def _left_out(sources: int, failed: Sequence[Collected], waiting: Sequence[Memory]) -> str:
    """What has just failed comes first: it is news, and what follows may be cut off."""
    news = f"{len(failed)} of {sources} sources failed: {_listed(failed)}" if failed else "no source failed anew"
    return f"{news}{_resting(waiting)}"


def _resting(waiting: Iterable[Memory]) -> str:
    each = [
        f"{memory.name} ({memory.last_error}; failures: {memory.failures}; until {memory.waits_until} UTC)"
        for memory in waiting
    ]
    return f". Left alone, because they failed before: {'; '.join(each)}" if each else ""


def _hint(results: Iterable[Collected], forgotten: str | None) -> str | None:
    """One sentence on the items that were left out, with the commonest reason of each source, and one on the openings
    whose source is no longer there."""
    rejected = [
        f"{result.source.name} {result.rejected.total()} ({result.rejected.most_common(1)[0][0]})"
        for result in results
        if result.rejected
    ]
    told = [f"items left out: {'; '.join(rejected)}" if rejected else None, forgotten]
    return ". ".join(filter(None, told)) or None
