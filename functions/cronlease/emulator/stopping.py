"""Ctrl-C and SIGTERM: the first signal asks for an orderly end, one during that end asks to stop now. Knows nothing
of what is stopped."""

import queue
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cronlease.emulator.scheduler import Hit

# Seconds before the emulator says what it waits for: sooner for a person who pressed Ctrl-C.
_ANNOUNCED_AFTER = {True: 0.4, False: 2.0}
_POLL_SECONDS = 0.05

# What the main thread waits for: an answered hit, or None for a signal.
Events = queue.SimpleQueue[Hit | None]


class Stopping:
    """Which stop was requested so far. `hurried`: stop now."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.events: Events = queue.SimpleQueue()  # its put may be called from a signal handler
        self.hurried = False
        self._asked = False
        self._begun = False
        self._warn = warn

    def begin(self) -> None:
        """From here on a signal means: stop now."""
        self._begun = True

    def ask(self, *_: object) -> None:
        """A signal handler: takes no lock that the interrupted code may hold."""
        self.hurried = self._begun
        self._asked = self._begun = True
        self.events.put(None)

    def announce(self, what: str, seconds: float) -> None:
        """Says what it waits for, and how to skip that."""
        self._warn(f"waiting up to {seconds:.0f} s for {what}: Ctrl-C ends it now")

    def wait_for(self, process: "subprocess.Popen[bytes]", seconds: float, what: str) -> None:
        """Waits for the process to end, for this long at most or until the next signal."""
        self.begin()
        began, announced = time.monotonic(), False
        while process.poll() is None and not self.hurried and time.monotonic() < began + seconds:
            if not announced and time.monotonic() > began + _ANNOUNCED_AFTER[self._asked]:
                announced = True
                self.announce(what, seconds)
            time.sleep(_POLL_SECONDS)


@contextmanager
def stop_signals(warn: Callable[[str], None]) -> Iterator[Stopping]:
    """Turns signals into events, so that nothing is interrupted halfway."""
    stopping = Stopping(warn)
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), stopping.ask) for name in names}
    try:
        yield stopping
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
