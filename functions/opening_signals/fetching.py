"""The sources of one run, from the network into the staging tables."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2
import psycopg

from opening_signals import report
from opening_signals.collect import Take, collect, drop
from opening_signals.errors import FeedError
from opening_signals.feeds.model import Opening, Source
from opening_signals.http.fetch import Validators, client
from opening_signals.limiter import Limiter, Permit
from opening_signals.readings import settle
from opening_signals.source_result import SourceResult
from opening_signals.store import suspects, upsert
from opening_signals.store.source_state import SourceState
from opening_signals.storing import Storing

if TYPE_CHECKING:
    from cronlease import Run

_SOURCE_SHARE = 0.6
_STAGING_SHARE = 0.8


class Fetching:
    """Fetches and stages sources within the time of the run. `results` are those of the sources that are done."""

    def __init__(
        self, run: "Run", states: Mapping[str, SourceState], at_once: int, per_host: int, sources: int
    ) -> None:
        self.run = run
        self.states = states
        self.limiter = Limiter(at_once, per_host)
        self.results: list[SourceResult] = []
        self._lease = run.lease.total_seconds()
        self._ends_at = asyncio.get_running_loop().time() + self._lease * _STAGING_SHARE
        # One source at a time gets a connection: requests that arrive meanwhile use the same pool.
        self._connection = asyncio.Lock()
        self._sources = sources
        self._openings = self._done = 0

    async def fetch(self, sources: Sequence[Source], storing: Storing) -> None:
        """Fetches all of them and hands each to `storing` when it is done."""
        async with client() as http:
            await self.limiter.fetch_all(sources, partial(self._fetch, http, storing))

    def add_result(self, result: SourceResult) -> None:
        self.results.append(result)
        report.log(self.run.request_id, result)

    def until(self) -> float:
        """The deadline, on the loop's clock, of a source that begins now."""
        return min(asyncio.get_running_loop().time() + self._lease * _SOURCE_SHARE, self._ends_at)

    async def _fetch(self, http: httpx2.AsyncClient, storing: Storing, source: Source, permit: Permit) -> None:
        run, host, readings = self.run, self.limiter.host(source), _Readings(self, http, source, permit)
        if host.is_left_alone:
            why = "did not answer" if host.is_down else f"asked to be left alone for {host.rests():.0f} s"
            result = SourceResult(source, error=f"its host {why}")
        else:
            with run.span("fetch", source=source.name, kind=source.kind) as span:
                result = await readings.settled()
                span.note(http_status=result.status, pages=result.pages, items=result.items)
                if result.error:
                    span.fail(result.error)
            if result.asked:
                host.end(is_silent=result.is_silent)
        self.add_result(result)
        storing.add(result, readings.staged.pages)
        self._done += 1
        self._show_progress()

    async def stage(self, staging: upsert.Staging, page: list[Opening]) -> None:
        try:
            await self.on_connection(lambda conn: staging.add(conn, page))
        except psycopg.Error as error:
            raise FeedError(f"its openings could not be staged: {error.diag.message_primary or error}") from error
        self._openings += len(page)
        self._show_progress()

    async def note(self, note: Callable[..., Awaitable[None]], source: Source) -> None:
        # The note matters only if the process dies: the fetch goes on without it.
        with suppress(psycopg.Error):
            await self.on_connection(lambda conn: note(conn, self.run.request_id, source))

    async def on_connection(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async with self._connection, self.run.connection() as conn:
            return await work(conn)

    def _show_progress(self) -> None:
        self.run.progress(f"{self._openings:,} openings fetched, sources", self._done, self._sources)


class _Readings:
    """The readings of one source. The one that counts is `staged`."""

    def __init__(self, fetching: Fetching, http: httpx2.AsyncClient, source: Source, permit: Permit) -> None:
        self.staged = upsert.Staging(fetching.run.request_id, source.name)
        self._fetching = fetching
        self._http = http
        self._source = source
        self._permit = permit
        self._state = fetching.states[source.name]
        self._until = fetching.until()

    async def settled(self) -> SourceResult:
        """The result of the source. The fetch is noted while it lasts, in case it kills the process."""
        fetching, clock = self._fetching, asyncio.get_running_loop().time
        if clock() < self._until:
            await fetching.note(partial(suspects.note_fetch, alone=self._state.is_suspect), self._source)
        take = partial(fetching.stage, self.staged)
        result = await self._collect(take, self._state.validators)
        if not result.error:
            has_time = clock() + result.seconds < self._until
            result = await settle(result, self, closes=self._closes, has_time=has_time)
        if result.asked:
            await fetching.note(suspects.end_fetch, self._source)
        return result

    async def read(self) -> SourceResult:
        first, self.staged = self.staged, upsert.Staging(self._fetching.run.request_id, self._source.name, 1)
        result = await self._collect(partial(self._fetching.stage, self.staged), Validators())
        unused = self.staged if result.error else first
        if result.error:
            self.staged = first
        await self._fetching.on_connection(unused.discard)
        return result

    async def read_without_staging(self) -> SourceResult:
        return await self._collect(drop, Validators())

    async def _collect(self, take: Take, validators: Validators) -> SourceResult:
        return await collect(
            self._http,
            self._source,
            validators=validators,
            take=take,
            until=self._until,
            host=self._fetching.limiter.host(self._source),
            wait=self._permit.wait,
            known=self._state.known,
        )

    async def _closes(self) -> bool:
        """Whether this reading lacks openings that are open."""
        run_id, name = self._fetching.run.request_id, self._source.name
        missing = await self._fetching.on_connection(lambda conn: upsert.missing_openings(conn, run_id, [name]))
        return any(gone for _, gone in missing.values())
