"""How this process ends: SIGTERM first lets the run in progress finish, and only then the server that called us.

In this order: no new run is started and readiness says so, at least for the announcement time; the runs in progress
go on, heartbeats and all, for the drain time; what is left then is interrupted, which frees its lease; connections
are closed; the server's own handler is called and stops listening. A second signal skips the waiting, never the
freeing.

In a host's process, where we are mounted, the host's handler is called immediately, and the rest happens beside it.
"""

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from cronlease.observe.logs import log

# For an interrupted run to write its end, and for its connections: with the drain they stay below the platform's ten
# seconds.
_LAST_WORDS_SECONDS = 3.0
_CLOSE_SECONDS = 0.5
_LOOK_EVERY_SECONDS = 0.02
# What a server, a terminal and a hasty gunicorn send.
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGQUIT") if hasattr(signal, name)]


class Lifecycle:
    """One process. Everything but the signals themselves happens on one event loop."""

    def __init__(self) -> None:
        self.draining = False
        self._stopping: asyncio.Event | None = None
        self._hurried = False
        self._at_work = 0
        self._interrupts: set[Callable[[], None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[int, Any] = {}
        self._passes_on = False
        self._withheld: int | None = None
        self._drain_seconds = 0.0
        self._announce_seconds = 0.0
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._then: Callable[[], object] | None = None
        self._told: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None

    def hook(
        self, drain_seconds: float, announce_seconds: float = 0, then: Callable[[], object] | None = None
    ) -> None:
        """Takes the signals over from whoever has them now; asked again, does nothing. Call it on the event loop.
        Both times count from the first signal. When all is done `then` is called, else whoever had SIGTERM before."""
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        self._stopping = asyncio.Event()
        self._drain_seconds = drain_seconds
        self._announce_seconds = announce_seconds
        self._then = then
        self._listen(_SIGNALS)

    def listen(self, drain_seconds: float) -> None:
        """In a host's process: drains when told to stop, while the signal goes on to whoever had it. One that nobody
        had ends the process after the drain. Asked again, does nothing, except on another event loop."""
        hooked = self._before and (not self._passes_on or self._loop is asyncio.get_running_loop())
        if hooked or threading.current_thread() is not threading.main_thread():
            return
        self._stopping = asyncio.Event()
        self._drain_seconds = drain_seconds
        self._passes_on = True
        had = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        # None was not set by Python: it could not be given back.
        self._listen([number for number, handler in had.items() if handler not in (signal.SIG_IGN, None)])

    def _listen(self, signals: Sequence[int]) -> None:
        self._loop = asyncio.get_running_loop()
        for number in signals:
            before = signal.signal(number, self._arrived)
            if before != self._arrived:
                self._before[number] = before

    def _arrived(self, number: int, frame: Any) -> None:
        assert self._loop is not None, "set before the signals are"
        try:
            self._loop.call_soon_threadsafe(self._told_to_stop, number)
        except RuntimeError:
            # The host's loop is closed, and nothing of ours is left to drain.
            self._restore()
            os.kill(os.getpid(), number)
            return
        if self._passes_on:
            handler = self._before.get(number)
            if callable(handler):
                handler(number, frame)
            else:
                self._withheld = number

    def hurry(self) -> None:
        """Ends the waiting for what is in progress, as a second signal would."""
        self._hurried = True

    async def drain(self, drain_seconds: float) -> None:
        """The same end without a signal, when a host's lifespan is over. The process may go on afterwards, and serve
        again."""
        if self._task is not None:
            await asyncio.shield(self._task)
            return
        self.draining = True
        self._drain_seconds = drain_seconds
        if self._stopping is not None:
            self._stopping.set()
        try:
            await self._wind_down()
        finally:
            self.draining = self._hurried = False
            if self._stopping is not None:
                self._stopping.clear()

    @asynccontextmanager
    async def guarding(self, drain_seconds: float, told: Callable[[], None] = lambda: None) -> AsyncIterator[None]:
        """Around all that a command-line process does: it ends as a server would, but by itself. `told` is called as
        soon as it is told to stop. What cannot even write its end in time is cancelled: its lease runs out."""
        task = asyncio.current_task()
        assert task is not None, "entered by a coroutine"
        self._told = told
        self.hook(drain_seconds, then=lambda: self._at_work and task.cancel())
        try:
            with self.work():
                yield
        finally:
            if self._task is None:
                self._hand_back()
            else:
                await self._task

    def close_at_the_end(self, close: Callable[[], Awaitable[None]]) -> None:
        self._closers.append(close)

    @contextmanager
    def work(self) -> Iterator[None]:
        """Around everything that may hold a lease; the process ends after it."""
        self._at_work += 1
        try:
            yield
        finally:
            self._at_work -= 1

    @contextmanager
    def interruptible(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Around a run: `interrupt` is called when its time to finish is over, at once if it is over already."""
        self._interrupts.add(interrupt)
        if self._hurried:
            interrupt()
        try:
            yield
        finally:
            self._interrupts.discard(interrupt)

    async def pause(self, seconds: float) -> None:
        """Waits so long, or until the process is told to stop."""
        if self._stopping is None:
            await asyncio.sleep(max(0.0, seconds))
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), max(0.0, seconds))

    def _told_to_stop(self, number: int) -> None:
        if self.draining or number == getattr(signal, "SIGQUIT", None):
            self._hurried = True
        if not self.draining and self._stopping is not None:
            self.draining = True
            self._stopping.set()
            self._told()
            log(
                logging.INFO,
                f"Told to stop, {len(self._interrupts)} in progress: waiting up to {self._drain_seconds:g} s",
                action="shutdown_started",
            )
            self._task = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        try:
            # A balancer that only looks has to find a server that answers: even an idle one goes on meanwhile.
            await self._until(lambda: self._hurried, self._announce_seconds)
            await self._wind_down()
            log(logging.INFO, f"Stopped with {self._at_work} in progress", action="shutdown_finished")
        finally:
            self._hand_back()

    async def _wind_down(self) -> None:
        """Lets what is in progress finish, interrupts what is left of it, and closes the connections."""
        left = self._drain_seconds - self._announce_seconds
        await self._until(lambda: not self._at_work or self._hurried, left)
        self._hurried = True
        for interrupt in list(self._interrupts):
            interrupt()
        await self._until(lambda: not self._at_work, _LAST_WORDS_SECONDS)
        closers, self._closers = self._closers, []
        for close in closers:
            with suppress(Exception):
                await asyncio.wait_for(close(), _CLOSE_SECONDS)

    def _hand_back(self) -> None:
        handler = self._before.get(signal.SIGTERM)
        self._restore()
        if self._then is not None:
            self._then()
        elif callable(handler) and not self._passes_on:
            handler(signal.SIGTERM, None)
        elif (number := self._withheld if self._passes_on else signal.SIGTERM) is not None:
            os.kill(os.getpid(), number)

    def _restore(self) -> None:
        before, self._before = self._before, {}
        for number, handler in before.items():
            # A host may have taken it back by itself.
            if signal.getsignal(number) == self._arrived:
                signal.signal(number, handler)

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Looks again and again: it is for the last seconds of a process, and what it waits for has no one place."""
        deadline = time.monotonic() + seconds
        while not condition() and (left := deadline - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left, _LOOK_EVERY_SECONDS))


process = Lifecycle()
