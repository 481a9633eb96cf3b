"""The resident trigger, for a machine that stays up: runs what is due, and sleeps until there may be more.

Nothing of a row is remembered between two looks: the schedule is in the database, and each look asks it anew. Knows
nothing of signals: whoever runs it calls stop.
"""

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from cronlease.db.connection import Database
from cronlease.job import Job
from cronlease.observe.logs import log
from cronlease.outcome import Outcome
from cronlease.settings import Settings
from cronlease.triggers.dispatch import Dispatcher, Taken

# Nobody tells us of rows that were made since the last look: they wait for this long at most.
_LONGEST = 10.0
_LONGEST_RETRY = 60.0
_JITTER = 0.1
# While others are claiming all that is due, there is no time to wait for; this keeps the worker from asking nonstop.
_SHORTEST = 0.1
_FIRST_RETRY = 1.0
_PRUNE_EVERY = 600.0
_TELL_EVERY = 30.0
_NAME_EVERY = 30.0


class Pace(NamedTuple):
    """How long the worker waits after a look that found nothing to run. Pure: the random source is the caller's."""

    troubles: int = 0

    def after(self, taken: Taken | None, source: random.Random) -> "tuple[float, Pace]":
        """The seconds until the next look, and the pace from there on. None is a look that raised."""
        if taken is None or taken.outcome is not None:
            # The exponent is bounded, too: a night without a database must not make a number of a thousand digits.
            growing = _FIRST_RETRY * 2 ** min(self.troubles, 6)
            return min(growing, _LONGEST_RETRY), Pace(self.troubles + 1)
        if taken.runs:
            return 0.0, Pace()
        longest = _LONGEST * (1 + _JITTER * source.random())
        if taken.due_in is None:
            return longest, Pace()
        return min(max(_SHORTEST, taken.due_in.total_seconds()), longest), Pace()


class Worker:
    """Runs what is due, up to `concurrency` rows at the same time, until stopped. Any number may share a database.

    One look takes rows for the free lanes; each lane runs one, and is free again a pause after its end.
    """

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
        self._pause = settings.dispatch_pause.total_seconds()
        self._free = concurrency
        # At most half of the lanes: while the database claims and closes the rows of one half, this process runs the
        # other.
        self._most = (concurrency + 1) // 2
        self._on_outcome = on_outcome
        self._random = random.SystemRandom()
        self._stopped = False
        # Set when there may be something to do: a lane is free, or the worker is to stop.
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def stopping(self) -> bool:
        return self._stopped

    async def look(self) -> Taken:
        """Claims the rows that are due longest for the free lanes, or returns how long until one is due."""
        taken = await self._dispatcher.take(min(self._free, self._most), trigger="worker")
        if not taken.runs and taken.outcome is None:
            await self._dispatcher.prune(_PRUNE_EVERY)
            await self._dispatcher.tell(_TELL_EVERY)
            await self._dispatcher.name_unknown(_NAME_EVERY)
        return taken

    async def run(self) -> None:
        """Runs until stop is called and the runs in progress have ended; takes the first look immediately."""
        self._loop = asyncio.get_running_loop()
        pace = Pace()
        async with asyncio.TaskGroup() as lanes:
            while not self._stopped:
                self._wake.clear()
                seconds = math.inf
                if self._free:
                    taken = await self._look_safely()
                    for run in () if taken is None else taken.runs:
                        self._free -= 1
                        lanes.create_task(self._lane(run))
                    seconds, pace = pace.after(taken, self._random)
                await self._wait(seconds)

    def stop(self) -> None:
        """Takes no further look; runs in progress finish. May be called from any thread and from a signal handler."""
        self._stopped = True
        if self._loop is not None:
            # A closed loop has nobody left to wake.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        self._wake.set()
        self._stop.set()

    async def _lane(self, run: Callable[[], Awaitable[Outcome]]) -> None:
        try:
            self._on_outcome(await run())
        except Exception as error:
            log(logging.ERROR, f"A run failed, the worker goes on: {error}", action="step_failed", cause=error)
        if self._pause and not self._stopped:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), self._pause)
        self._free += 1
        self._wake.set()

    async def _look_safely(self) -> Taken | None:
        try:
            return await self.look()
        except Exception as error:
            log(logging.ERROR, f"A look failed, the worker goes on: {error}", action="step_failed", cause=error)
            return None

    async def _wait(self, seconds: float) -> None:
        """Waits that long, or until a lane is free or the worker has to stop."""
        if not self._stopped and seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), None if math.isinf(seconds) else seconds)
