"""The job: load the sources, fetch and stage them all together, merge what is complete, report. Sources that the last
run may have died of come after that, one at a time.

No transaction is open while it waits on the network, and one bad source never fails the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2
import psycopg

from opening_signals import report, settings
from opening_signals.collect import Collected, collect
from opening_signals.errors import FeedError
from opening_signals.feeds.model import Opening, Source
from opening_signals.http.fetch import client
from opening_signals.sources_file import load
from opening_signals.store import orphaned_sources, source_state, suspects, upsert
from opening_signals.store.changes import prune_changes
from opening_signals.store.lock import lock_sources
from opening_signals.store.source_state import SourceState

if TYPE_CHECKING:
    from cronlease import Run

_SOURCE_SHARE = 0.6
_STAGING_SHARE = 0.8
_NO_SOURCES = "there are no sources yet: name a TOML file with a [[source]] in CRONLEASE_SOURCES"


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
        await upsert.delete_stale_staging(conn, run.request_id)
        await prune_changes(conn, settings.retention())
        states = await source_state.load_source_states(conn, sources)
        orphans = orphaned_sources.sentence(await orphaned_sources.orphaned_sources(conn, states))
    blamed = suspects.blamed(sources, states)
    asked = _due(sources, states, blamed)
    work = _Refresh(run, states, at_once, len(asked))
    results, unstored = await work.collect_all(blamed, suspects.batches(asked, states))
    names = {result.source.name for result in results}
    waiting = [state for name, state in states.items() if name not in names]
    failed = [result for result in results if result.error]
    if len(failed) == len(results):
        async with run.transaction() as conn:
            await work.store(conn, unstored)
        raise AllSourcesFailedError(report.all_failed(failed, waiting))
    run.report(hint=report.hint(results, orphans))
    if failed or waiting:
        run.partial(report.left_out(len(sources), failed, waiting))
    async with run.commit() as conn:
        await work.store(conn, unstored)
        run.report(**work.merged._asdict(), unchanged=work.merged.unchanged)


def _due(sources: Sequence[Source], states: Mapping[str, SourceState], blamed: Sequence[Collected]) -> list[Source]:
    """Those to ask now, the healthy first: the others must not delay them. When all of them wait, all are asked: the
    run has waited for them already."""
    not_asked = {result.source.name for result in blamed}
    usable = [source for source in sources if source.name not in not_asked]
    due = [source for source in usable if not states[source.name].waits_until] or usable
    return sorted(due, key=lambda source: states[source.name].failures)


class _Refresh:
    """One run of the job: fetches, stages and stores its sources within its time."""

    def __init__(self, run: "Run", states: Mapping[str, SourceState], at_once: int, sources: int) -> None:
        self.merged = upsert.Merged(0, 0, 0)
        self._run = run
        self._states = states
        self._staged: dict[str, upsert.Staging] = {}
        self._lease = run.lease.total_seconds()
        self._ends_at = asyncio.get_running_loop().time() + self._lease * _STAGING_SHARE
        self._turn = asyncio.Semaphore(at_once)
        # One source at a time has a connection: the requests that arrive meanwhile need theirs from the same pool.
        self._connection = asyncio.Lock()
        self._sources = sources
        self._openings = self._done = 0

    async def collect_all(
        self, blamed: Sequence[Collected], batches: Sequence[Sequence[Source]]
    ) -> tuple[list[Collected], list[Collected]]:
        """How all sources did, and of these the ones that are not stored yet."""
        results = list(blamed)
        stored = 0
        for result in blamed:
            report.log(self._run.request_id, result)
        for number, batch in enumerate(batches):
            if number:
                # The process may die of this suspect: whatever came before it is stored first.
                async with self._run.transaction() as conn:
                    await self.store(conn, results[stored:])
                stored = len(results)
            async with client() as http, asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._collect(http, source)) for source in batch]
            results += [task.result() for task in tasks]
        return results, results[stored:]

    async def store(self, conn: Any, results: Sequence[Collected]) -> None:
        """Merges what was staged and records how each source did, in a fenced transaction. Only a source that was
        fetched to the end and whose every item was readable may close an opening."""
        run = self._run
        await lock_sources(conn, [result.source.name for result in results])
        complete = [result.source.name for result in results if not result.error and not result.not_modified]
        if complete:
            run.progress(f"writing what changed of {sum(result.openings for result in results):,} openings")
            unsure = [result.source.name for result in results if result.rejected]
            pages = {name: self._staged[name].pages for name in complete}
            with run.span("merge", sources=len(complete)):
                merged = await upsert.merge(conn, run.request_id, pages, unsure=unsure)
            self.merged = self.merged.and_also(merged)
        await source_state.record_results(conn, results, lambda name: run.backoff(self._states[name].failures + 1))

    async def _collect(self, http: httpx2.AsyncClient, source: Source) -> Collected:
        run, state = self._run, self._states[source.name]
        staging = self._staged[source.name] = upsert.Staging(run.request_id, source.name)
        async with self._turn:
            now = asyncio.get_running_loop().time()
            until = min(now + self._lease * _SOURCE_SHARE, self._ends_at)
            if now < until:
                await self._note(partial(suspects.note_fetch, alone=state.is_suspect), source)
            with run.span("fetch", source=source.name, kind=source.kind) as span:
                take = partial(self._stage, staging)
                result = await collect(http, source, validators=state.validators, take=take, until=until)
                span.note(http_status=result.status, pages=result.pages, items=result.items)
                if result.error:
                    span.fail(result.error)
            if result.asked:
                await self._note(suspects.end_fetch, source)
        report.log(run.request_id, result)
        self._done += 1
        self._show_progress()
        return result

    async def _stage(self, staging: upsert.Staging, page: list[Opening]) -> None:
        try:
            async with self._connection, self._run.connection() as conn:
                await staging.add(conn, page)
        except psycopg.Error as error:
            raise FeedError(f"its openings could not be staged: {error.diag.message_primary or error}") from error
        self._openings += len(page)
        self._show_progress()

    async def _note(self, note: Callable[..., Awaitable[None]], source: Source) -> None:
        # A note matters only when the process dies: a fetch goes on without it.
        with suppress(psycopg.Error):
            async with self._connection, self._run.connection() as conn:
                await note(conn, self._run.request_id, source)

    def _show_progress(self) -> None:
        self._run.progress(f"{self._openings:,} openings fetched, sources", self._done, self._sources)
