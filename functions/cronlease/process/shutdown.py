"""How this process ends: on SIGTERM the runs in progress finish first, and the server that called us ends after them.

The order is: no new run starts, and readiness says so at least for the announcement time; the runs in progress go on,
with their heartbeats, for the drain time; runs that are left are interrupted, which frees their leases; connections
are closed; the server's own handler is called and stops listening. A second signal skips the waiting, but leases are
still freed.

In a host's process, where we are mounted, the host's handler is called immediately and the rest happens in parallel.
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

# For an interrupted run to write its end, and to close its connections. With the drain, the sum stays below the ten
# seconds that platforms allow.
_LAST_WORDS_SECONDS = 3.0
_CLOSE_SECONDS = 0.5
_POLL_SECONDS = 0.02
# A server sends SIGTERM, a terminal SIGINT, and gunicorn's quick shutdown SIGQUIT.
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGQUIT") if hasattr(signal, name)]


class _Work:
    """No generator: every hit passes here."""

    __slots__ = ("_of",)

    def __init__(self, of: "Lifecycle") -> None:
        self._of = of

    def __enter__(self) -> None:
        self._of._at_work += 1

    def __exit__(self, *_: object) -> None:
        self._of._at_work -= 1


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
        self._on_stop: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None

    def hook(
        self, drain_seconds: float, announce_seconds: float = 0, then: Callable[[], object] | None = None
    ) -> None:
        """Takes the signals over from their current handlers; a second call does nothing. Call it on the event loop.
        Both times count from the first signal. At the end calls `then`, or without it the earlier SIGTERM handler."""
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        self._stopping = asyncio.Event()
        self._drain_seconds = drain_seconds
        self._announce_seconds = announce_seconds
        self._then = then
        self._listen(_SIGNALS)

    def listen(self, drain_seconds: float) -> None:
        """For a host's process: drains on a signal and passes it on to the host's handler immediately. A signal
        without a handler ends the process after the drain. A second call does nothing, unless the loop is another."""
        hooked = self._before and (not self._passes_on or self._loop is asyncio.get_running_loop())
        if hooked or threading.current_thread() is not threading.main_thread():
            return
        self._stopping = asyncio.Event()
        self._drain_seconds = drain_seconds
        self._passes_on = True
        had = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        # A handler that is None was not set by Python and could not be restored.
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
            self._loop.call_soon_threadsafe(self._stop, number)
        except RuntimeError:
            # The host's loop is closed: nothing of ours is left to drain.
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
        """Stops waiting for runs in progress, as a second signal does."""
        self._hurried = True

    async def drain(self, drain_seconds: float) -> None:
        """Drains without a signal, at the end of a host's lifespan. The process may go on and serve again."""
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
    async def guarding(self, drain_seconds: float, on_stop: Callable[[], None] = lambda: None) -> AsyncIterator[None]:
        """Around all that a command-line process does: on a signal it drains as a server would, and then ends by
        itself. Calls `on_stop` at the first signal. A run that cannot even write its end in time is cancelled: its
        lease expires."""
        task = asyncio.current_task()
        assert task is not None, "entered by a coroutine"
        self._on_stop = on_stop
        self.hook(drain_seconds, then=lambda: self._at_work and task.cancel())
        try:
            with self.work():
                yield
        finally:
            if self._task is None:
                # What is still at work here is in the background, and must not take the answer with it.
                self._restore()
            else:
                await self._task

    def close_at_the_end(self, close: Callable[[], Awaitable[None]]) -> None:
        self._closers.append(close)

    def work(self) -> "_Work":
        """Around everything that may hold a lease: the process waits for it before it ends."""
        return _Work(self)

    @contextmanager
    def interruptible(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Around a run: calls `interrupt` when the drain time is over, immediately if it is over already."""
        self._interrupts.add(interrupt)
        if self._hurried:
            interrupt()
        try:
            yield
        finally:
            self._interrupts.discard(interrupt)

    async def pause(self, seconds: float) -> None:
        """Sleeps this long, or until a signal asks the process to stop."""
        if self._stopping is None:
            await asyncio.sleep(max(0.0, seconds))
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), max(0.0, seconds))

    def _stop(self, number: int) -> None:
        if self.draining or number == getattr(signal, "SIGQUIT", None):
            self._hurried = True
        if not self.draining and self._stopping is not None:
            self.draining = True
            self._stopping.set()
            self._on_stop()
            log(
                logging.INFO,
                f"Told to stop, {len(self._interrupts)} in progress: waiting up to {self._drain_seconds:g} s",
                action="shutdown_started",
            )
            self._task = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        try:
            # A load balancer learns from readiness probes: until it has, even an idle server must answer.
            await self._until(lambda: self._hurried, self._announce_seconds)
            await self._wind_down()
            log(logging.INFO, f"Stopped with {self._at_work} in progress", action="shutdown_finished")
        finally:
            self._hand_back()

    async def _wind_down(self) -> None:
        """Lets the runs in progress finish, interrupts those that are left, and closes the connections."""
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
            # A host may have replaced our handler already.
            if signal.getsignal(number) == self._arrived:
                signal.signal(number, handler)

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Polls: these conditions share no event, and this is for the last seconds of a process only."""
        deadline = time.monotonic() + seconds
        while not condition() and (left := deadline - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left, _POLL_SECONDS))


process = Lifecycle()
