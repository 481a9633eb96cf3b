"""Writes the complete sources of a run, in fenced pieces, so that a slow source delays only itself.

A vendor's mistake looks like a board that was emptied or lost most of its openings. Such an answer is doubted: it
closes nothing until a later run gets one that is as unlikely.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from opening_signals.source_result import SourceResult
from opening_signals.store import source_state, upsert
from opening_signals.store.lock import lock_sources
from opening_signals.store.source_state import SourceState

if TYPE_CHECKING:
    from cronlease import Run

# Seconds between two pieces.
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 3.0
# Of fewer openings, half may well close in a day.
_MANY = 20


class Storing:
    """The sources of one run that are fetched but not stored yet. `doubts` has the reason for each source whose
    answer is too unlikely to close anything yet."""

    def __init__(self, run: "Run", states: Mapping[str, SourceState]) -> None:
        self.doubts: dict[str, str] = {}
        self._run = run
        self._states = states
        self._results: list[tuple[SourceResult, int]] = []
        self._merged = upsert.Merged(0, 0, 0)

    def add(self, result: SourceResult, pages: int = 0) -> None:
        """Takes a fetched source with this many staged pages."""
        self._results.append((result, pages))

    async def store_pieces(self, fetched: asyncio.Event) -> None:
        """Stores a piece from time to time until all is fetched; the caller stores the rest."""
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
        """Merges what was staged and records the result of each source, in a fenced transaction. Only a source that
        was read to its end, with every item seen and readable, may close an opening."""
        run, stored = self._run, self._results
        self._results = []
        results = [result for result, _ in stored]
        await lock_sources(conn, [result.source.name for result in results])
        complete = {each.source.name: pages for each, pages in stored if not (each.error or each.not_modified)}
        if complete:
            run.progress(f"writing what changed of {sum(result.openings for result in results):,} openings")
            unsure = [result.source.name for result in results if result.rejected or result.doubt]
            judge = partial(self._is_doubted, complete)
            with run.span("merge", sources=len(complete)):
                merged = await upsert.merge(conn, run.request_id, complete, unsure=unsure, judge=judge)
            self._merged = self._merged.and_also(merged)
        await source_state.record_results(conn, results, self._wait, self.doubts)
        run.report(**self._merged._asdict(), unchanged=self._merged.unchanged)

    def _is_doubted(self, pages: Mapping[str, int], name: str, open_before: int, gone: int) -> bool:
        if self._states[name].doubted:
            return False
        if gone and not pages[name]:
            self.doubts[name] = f"it has no openings any more, and had {open_before}"
        elif open_before >= _MANY and gone * 2 > open_before:
            self.doubts[name] = f"{gone} of its {open_before} openings are gone"
        return name in self.doubts

    def _wait(self, name: str) -> Any:
        return self._run.backoff(self._states[name].failures + 1)
