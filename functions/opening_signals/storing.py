"""What a run writes of its sources: what is complete, in fenced pieces, so that a slow source delays only itself."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from opening_signals.collected import Collected
from opening_signals.doubt import why_doubtful
from opening_signals.store import source_state, upsert
from opening_signals.store.lock import lock_sources
from opening_signals.store.source_state import SourceState

if TYPE_CHECKING:
    from cronlease import Run

# Seconds between two pieces: a few at first, and never many.
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 3.0


class Storing:
    """The sources of one run that are fetched and not stored yet. `doubts` are those whose answer is too unlikely to
    close anything yet, and why."""

    def __init__(self, run: "Run", states: Mapping[str, SourceState]) -> None:
        self.doubts: dict[str, str] = {}
        self._run = run
        self._states = states
        self._results: list[tuple[Collected, int]] = []
        self._merged = upsert.Merged(0, 0, 0)

    def add(self, result: Collected, pages: int = 0) -> None:
        """This source was fetched, and so many pages of it are staged."""
        self._results.append((result, pages))

    async def store_pieces(self, fetched: asyncio.Event) -> None:
        """Stores what is there from time to time, until all is fetched; the rest is the caller's to store."""
        pause = _FIRST_PAUSE
        while True:
            try:
                async with asyncio.timeout(pause):
                    await fetched.wait()
                    return
            except TimeoutError:
                pause = min(pause * 1.5, _LONGEST_PAUSE)
            await self.store_piece()

    async def store_piece(self) -> None:
        if self._results:
            async with self._run.transaction() as conn:
                await self.store(conn)

    async def store(self, conn: Any) -> None:
        """Merges what was staged and records how each source did, in a fenced transaction. Only a source that was
        fetched to the end, and of which every item was seen and readable, may close an opening."""
        run, stored = self._run, self._results
        self._results = []
        results = [result for result, _ in stored]
        await lock_sources(conn, [result.source.name for result in results])
        complete = {each.source.name: pages for each, pages in stored if not (each.error or each.not_modified)}
        if complete:
            run.progress(f"writing what changed of {sum(result.openings for result in results):,} openings")
            unsure = [result.source.name for result in results if result.rejected or result.doubt]
            judge = partial(self._has_to_say_it_again, complete)
            with run.span("merge", sources=len(complete)):
                merged = await upsert.merge(conn, run.request_id, complete, unsure=unsure, judge=judge)
            self._merged = self._merged.and_also(merged)
        await source_state.record_results(conn, results, self._wait, self.doubts)
        run.report(**self._merged._asdict(), unchanged=self._merged.unchanged)

    def _has_to_say_it_again(self, pages: Mapping[str, int], name: str, open_before: int, gone: int) -> bool:
        why = why_doubtful(open_before=open_before, gone=gone, is_empty=not pages[name])
        if why is None or self._states[name].doubted:
            return False
        self.doubts[name] = why
        return True

    def _wait(self, name: str) -> Any:
        return self._run.backoff(self._states[name].failures + 1)
