"""Which faults to cause and how often, and how many were caused. Knows nothing of processes."""

import random
import threading
from collections import Counter
from typing import NamedTuple


class Faults(NamedTuple):
    """How often each fault happens: a probability per hit, or the seconds between two (0: never)."""

    duplicate: float = 0.0
    drop_response: float = 0.0
    late: float = 0.0
    overlap: bool = False
    kill_every: float = 0.0
    pause_every: float = 0.0
    sigterm_every: float = 0.0
    db_restart_every: float = 0.0

    @property
    def hurt_processes(self) -> bool:
        return bool(self.kill_every or self.pause_every or self.sigterm_every)


NO_FAULTS = Faults()
CHAOS = Faults(
    duplicate=0.2,
    drop_response=0.15,
    late=0.1,
    overlap=True,
    kill_every=7.0,
    pause_every=8.0,
    sigterm_every=12.0,
    db_restart_every=10.0,
)


class Dice:
    """Decides by chance, and counts the faults by kind. For any thread."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.random = random.Random()  # noqa: S311 (it may be guessed)
        self._lock = threading.Lock()

    def falls(self, chance: float, kind: str) -> bool:
        """Whether the fault happens now; if so it is counted."""
        happens = chance > 0 and self.random.random() < chance
        if happens:
            self.count(kind)
        return happens

    def count(self, kind: str) -> None:
        with self._lock:
            self.done[kind] += 1
