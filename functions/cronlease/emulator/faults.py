"""What goes wrong on purpose on the way to the function, and the count of all that did. Knows no process."""

import random
import threading
from collections import Counter
from typing import NamedTuple


class Faults(NamedTuple):
    """How often what goes wrong: a chance for each hit, or seconds from one to the next (0: never)."""

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
    """Decides, and counts what was done by its kind. For any thread."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self._random = random.Random()  # noqa: S311 (nothing depends on nobody guessing it)
        self._lock = threading.Lock()

    def falls(self, chance: float, kind: str) -> bool:
        """Whether it happens now; if so it is counted."""
        happens = chance > 0 and self._random.random() < chance
        if happens:
            self.count(kind)
        return happens

    def count(self, kind: str) -> None:
        with self._lock:
            self.done[kind] += 1

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def one_of(self, pids: list[int]) -> int:
        return self._random.choice(pids)
