"""The resident trigger, for a machine that stays up: runs what is due, and sleeps until there may be more.

Nothing of a row is remembered between two steps: the schedule is in the database, and each step asks it anew. Knows
nothing of signals: whoever runs it calls stop.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import NamedTuple

from cronlease.db.connection import Database
from cronlease.job import Job
from cronlease.observe.logs import log
from cronlease.outcome import Outcome
from cronlease.settings import Settings
from cronlease.triggers.dispatch import Dispatched, Dispatcher

# Rows made since the last look come due without a word to us: nobody waits longer than this for them.
_LONGEST = 10.0
_LONGEST_RETRY = 60.0
_JITTER = 0.1
# When all that is due is being claimed by others there is nothing to wait for, and no reason to ask without pause.
_SHORTEST = 0.1
_FIRST_RETRY = 1.0
_PRUNE_EVERY = 600.0
_TELL_EVERY = 30.0


class Pace(NamedTuple):
    """How long a lane waits after a step. Pure: the random source is the caller's."""

    pause: timedelta
    troubles: int = 0

    def after(self, dispatched: Dispatched | None, source: random.Random) -> "tuple[float, Pace]":
        """The seconds until the next step, and the pace from there on. None is a step that raised."""
        if dispatched is None or (dispatched.outcome is not None and dispatched.outcome.skipped is not None):
            # The exponent is bounded, too: a night without a database must not make a number of a thousand digits.
            growing = _FIRST_RETRY * 2 ** min(self.troubles, 6)
            return min(growing, _LONGEST_RETRY), self._replace(troubles=self.troubles + 1)
        calm = self._replace(troubles=0)
        if dispatched.outcome is not None:
            return self.pause.total_seconds(), calm
        longest = _LONGEST * (1 + _JITTER * source.random())
        if dispatched.due_in is None:
            return longest, calm
        return min(max(_SHORTEST, dispatched.due_in.total_seconds()), longest), calm


class Worker:
    """Runs what is due, up to `concurrency` rows at once, until stopped. Any number may share a database."""

    def __init__(
        self,
        jobs: Mapping[str, Job],
        database: Database,
        settings: Settings,
        *,
        concurrency: int = 1,
        on_outcome: Callable[[Outcome], None] = lambda _: None,
    ) -> None:
        self._dispatcher = Dispatcher(jobs, database, settings)
        self._pace = Pace(settings.dispatch_pause)
        self._concurrency = concurrency
        self._on_outcome = on_outcome
        self._random = random.SystemRandom()
        self._stopped = False
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def stopping(self) -> bool:
        return self._stopped

    async def step(self) -> Dispatched:
        """Claims what is due longest and runs it, or says how long until something is."""
        dispatched = await self._dispatcher.one(trigger="worker")
        if dispatched.outcome is None:
            await self._dispatcher.prune(_PRUNE_EVERY)
            await self._dispatcher.tell(_TELL_EVERY)
        return dispatched

    async def run(self) -> None:
        """Until stop is called and the runs in progress have ended; the first step is taken at once."""
        self._loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as lanes:
            for _ in range(self._concurrency):
                lanes.create_task(self._lane())

    def stop(self) -> None:
        """No new step; a run in progress is finished. From any thread, and from a signal handler."""
        self._stopped = True
        if self._loop is not None:
            # Closed, the loop has nobody left to wake.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake.set)

    async def _lane(self) -> None:
        pace = self._pace
        while not self._stopped:
            dispatched = await self._step_safely()
            seconds, pace = pace.after(dispatched, self._random)
            await self._wait(seconds)

    async def _step_safely(self) -> Dispatched | None:
        try:
            dispatched = await self.step()
            if dispatched.outcome is not None and dispatched.outcome.skipped is None:
                self._on_outcome(dispatched.outcome)
        except Exception as error:
            log(logging.ERROR, f"A step failed, the loop goes on: {error}", action="step_failed", cause=error)
            return None
        return dispatched

    async def _wait(self, seconds: float) -> None:
        if not self._stopped:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), seconds)
