"""When to run next: bands, jitter and backoff. Pure: no clock, no database, no settings.

A draw is a duration; only the database adds it to a time.
"""

import random
import re
from datetime import timedelta
from typing import NamedTuple

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = timedelta(days=3650)


def duration(text: str) -> timedelta:
    """Reads 90s, 5m, 2h or 1d; anything else is a ValueError that says how to write it."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a duration: write 90s, 5m, 2h or 1d")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds > _LONGEST.total_seconds():
        raise ValueError(f"{text!r} is longer than ten years")
    return timedelta(seconds=seconds)


def written(length: timedelta) -> str:
    """The shortest text that `duration` reads back as the same length."""
    seconds = length.total_seconds()
    for unit, size in reversed(_UNITS.items()):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:g}s"


class Every(NamedTuple):
    """A band of delays: each run draws the next one uniformly between low and high."""

    low: timedelta
    high: timedelta

    @classmethod
    def parse(cls, text: str) -> "Every":
        """Reads low..high, such as 10m..15m; a single duration is a band without width."""
        low, dots, high = text.partition("..")
        try:
            band = cls(duration(low), duration(high if dots else low))
        except ValueError as error:
            raise ValueError(f"{error}; a band is written low..high, such as 10m..15m") from None
        if band.low > band.high:
            raise ValueError(f"{text!r} is upside down: write {written(band.high)}..{written(band.low)}")
        return band

    def draw(self, source: random.Random) -> timedelta:
        return self.low + (self.high - self.low) * source.random()

    def __str__(self) -> str:
        return f"{written(self.low)}..{written(self.high)}"


class Backoff(NamedTuple):
    """What a failure costs: a draw from the band, times growth for each earlier failure, up to the cap."""

    band: Every
    growth: float
    cap: timedelta

    def draw(self, failures: int, source: random.Random) -> timedelta:
        """failures counts the one that has just happened, so it is at least 1."""
        drawn = self.band.draw(source).total_seconds()
        ceiling = self.cap.total_seconds()
        # Multiplied step by step: growth ** 1000 would overflow long after the cap was reached.
        for _ in range(failures - 1):
            if self.growth == 1 or drawn >= ceiling:
                break
            drawn *= self.growth
        return timedelta(seconds=min(drawn, ceiling))
