"""Ctrl-C and SIGTERM: the first asks for an end in order, one that comes while it ends asks for an end now. Knows
nothing of what is ended."""

import queue
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cronlease.emulator.scheduler import Hit

# A person who has asked for the end is told soon what it waits for; where nobody did, it may take a moment.
_TOLD_AFTER_SECONDS = {True: 0.4, False: 2.0}
_POLL_SECONDS = 0.05

# What the main thread waits for: an answered hit, or None when it is told to stop.
Events = queue.SimpleQueue[Hit | None]


class Stopping:
    """What was asked for so far. `tell` is for a person who waits."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.events: Events = queue.SimpleQueue()  # its put may be called from a signal handler
        self.hurried = False
        self._asked = False
        self._begun = False
        self._warn = warn

    def begin(self) -> None:
        """From now on a signal means: at once."""
        self._begun = True

    def ask(self, *_: object) -> None:
        """A signal handler: sets and puts, and waits for no lock that the interrupted code may hold."""
        self.hurried = self._begun
        self._asked = self._begun = True
        self.events.put(None)

    def announce(self, what: str, seconds: float) -> None:
        """Says what is waited for, and how to end that."""
        self._warn(f"waiting up to {seconds:.0f} s for {what}: Ctrl-C ends it now")

    def patiently(self, process: "subprocess.Popen[bytes]", seconds: float, what: str) -> None:
        """Waits for its end, so long at most, or until somebody is in a hurry."""
        self.begin()
        began, announced = time.monotonic(), False
        while process.poll() is None and not self.hurried and time.monotonic() < began + seconds:
            if not announced and time.monotonic() > began + _TOLD_AFTER_SECONDS[self._asked]:
                announced = True
                self.announce(what, seconds)
            time.sleep(_POLL_SECONDS)


@contextmanager
def stop_signals(warn: Callable[[str], None]) -> Iterator[Stopping]:
    """Nothing is interrupted half-way, and all is stopped in order."""
    stopping = Stopping(warn)
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), stopping.ask) for name in names}
    try:
        yield stopping
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
