"""The scheduler's time, which may run faster than real time."""

import time
from datetime import UTC, datetime, timedelta


class Clock:
    """Starts now, or at `first`, and runs `speed` times as fast."""

    def __init__(self, speed: float = 1.0, first: datetime | None = None) -> None:
        self._speed = speed
        self._first = first or datetime.now(UTC)
        self._began = time.monotonic()

    def now(self) -> datetime:
        return self._first + timedelta(seconds=(time.monotonic() - self._began) * self._speed)

    def real(self, seconds: float) -> float:
        """How many real seconds this many seconds of the clock take."""
        return seconds / self._speed

    def until(self, moment: datetime) -> float:
        """Real seconds until then; 0 when it is past."""
        return max(0.0, self.real((moment - self.now()).total_seconds()))
