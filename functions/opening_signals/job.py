"""The job: load the sources, fetch and stage them, merge the complete ones in pieces, report. Sources that may have
killed the last run come last, one at a time.

No transaction is open while it waits on the network, and one bad source never fails or delays the others.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opening_signals import report, settings
from opening_signals.feeds.model import Source
from opening_signals.fetching import Fetching
from opening_signals.limiter import fetch_order
from opening_signals.source_result import SourceResult
from opening_signals.sources_file import load
from opening_signals.store import orphaned_sources, source_state, suspects, upsert
from opening_signals.store.source_state import SourceState
from opening_signals.storing import Storing

if TYPE_CHECKING:
    from cronlease import Run

_NO_SOURCES = "there are no sources yet: name a TOML file with a [[source]] in CRONLEASE_SOURCES"


class AllSourcesFailedError(Exception):
    """Not one source could be fetched: there is nothing to merge."""


async def refresh(run: "Run") -> None:
    """Fetches the openings of every source and upserts them. The run is partial when sources failed, are doubted, or
    were left alone because they failed before."""
    at_once, per_host = settings.at_once(), settings.per_host()
    sources = load(settings.sources_file())
    if not sources:
        run.report(fetched=0, inserted=0, updated=0, unchanged=0, closed=0, hint=_NO_SOURCES)
        return
    async with run.connection() as conn:
        await upsert.delete_stale_staging(conn, run.request_id)
        await upsert.prune_changes(conn, settings.retention())
        states = await source_state.load_source_states(conn, sources)
        orphans = orphaned_sources.sentence(await orphaned_sources.orphaned_sources(conn, states))
    blamed = suspects.blamed(sources, states)
    asked = _due(sources, states, blamed)
    fetching, storing = Fetching(run, states, at_once, per_host, len(asked)), Storing(run, states)
    results = await _fetch_all(fetching, storing, blamed, suspects.batches(asked, states))
    places = {source.name: place for place, source in enumerate(sources)}
    results.sort(key=lambda result: places[result.source.name])
    names = {result.source.name for result in results}
    waiting = [state for name, state in states.items() if name not in names]
    if results and all(result.error for result in results):
        await storing.store_piece()
        raise AllSourcesFailedError(report.all_failed(results, waiting))
    run.report(hint=report.hint(results, orphans))
    async with run.commit() as conn:
        await storing.store(conn)
        await upsert.delete_staged(conn, run.request_id)
        if reason := report.incomplete(len(sources), results, waiting, storing.doubts):
            run.partial(reason)


def _due(
    sources: Sequence[Source], states: Mapping[str, SourceState], blamed: Sequence[SourceResult]
) -> list[Source]:
    """The sources to ask now, in order. If all of them wait after failures, asks all but those that asked to be left
    alone: the run itself has waited already."""
    not_asked = {result.source.name for result in blamed}
    usable = [source for source in sources if source.name not in not_asked]
    due = [source for source in usable if not states[source.name].waits_until]
    if not due:
        due = [source for source in usable if not states[source.name].rests]
    return fetch_order(due, lambda source: states[source.name].failures)


async def _fetch_all(
    fetching: Fetching, storing: Storing, blamed: Sequence[SourceResult], batches: Sequence[Sequence[Source]]
) -> list[SourceResult]:
    """The results of all sources. Stores the complete ones from time to time, in pieces."""
    for result in blamed:
        fetching.add_result(result)
        storing.add(result)
    for number, batch in enumerate(batches):
        if number:
            # This suspect may kill the process: store first what came before it.
            await storing.store_piece()
        fetched = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(storing.store_pieces(fetched))
                await fetching.fetch(batch, storing)
                fetched.set()
        except BaseExceptionGroup as errors:
            # The caller distinguishes errors by type.
            raise _first(errors) from None
    return fetching.results


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
