"""How often to run: bands, beats, crons, and backoff. Pure: no clock, no database, no settings.

A draw is a duration; only the database adds it to a time. slots.py has the slots of a beat or a cron.
"""

import random
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cronlease.slots import Slots

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = timedelta(days=3650)
_LEAST_LATE = timedelta(minutes=10)
_EARLY_FOR_A_CRON, _EARLIEST = timedelta(seconds=5), timedelta(seconds=30)
HIT = "hit"
# Fields of a cron; its zone follows them.
_FIELDS = 5


def duration(text: str) -> timedelta:
    """Reads 90s, 5m, 2h or 1d; anything else is a ValueError that says how to write it."""
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if not match:
        raise ValueError(f"{text!r} is not a duration: write 90s, 5m, 2h or 1d")
    seconds = float(match[1]) * _UNITS[match[2]]
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
        """Reads low..high, such as 10m..15m; a single duration is a band of zero width."""
        low, dots, high = text.partition("..") if isinstance(text, str) else (text, "", "")
        try:
            band = cls(duration(low), duration(high if dots else low))
        except ValueError as error:
            raise ValueError(f"{error}; a band is written low..high, such as 10m..15m") from None
        if band.low > band.high:
            raise ValueError(f"{text!r} is the wrong way round: write {written(band.high)}..{written(band.low)}")
        return band

    def draw(self, source: random.Random) -> timedelta:
        return self.low + (self.high - self.low) * source.random()

    def __str__(self) -> str:
        return f"{written(self.low)}..{written(self.high)}"


class Cadence(NamedTuple):
    """How often something runs: a band, a beat, a cron with its zone, or at each hit. By the text the schedule row
    remembers which one a plan was made from; only a cron's has spaces."""

    text: str
    band: Every | None = None
    beat: timedelta | None = None
    cron: tuple[str, str] | None = None

    @classmethod
    def parse(cls, text: str) -> "Cadence":
        """Reads 10m..15m, 6h, hit, or the text of a cron and its zone. Raises ValueError, one sentence."""
        words = text.split() if isinstance(text, str) else ()
        if len(words) == _FIELDS + 1:
            expression, _, zone = text.strip().rpartition(" ")
            return cls.of_cron(expression, zone)
        if len(words) != 1:
            more = '; a cron is written cron="0 9 * * 1-5"' if len(words) == _FIELDS else ""
            raise ValueError(f"{text!r} is not a cadence: write a beat such as 6h, or a band such as 10m..15m{more}")
        text = words[0]
        if text == HIT:
            return cls(HIT)
        if ".." in text:
            band = Every.parse(text)
            return cls(str(band), band=band)
        try:
            beat = duration(text)
        except ValueError as error:
            raise ValueError(f"{error}; a band is written low..high, such as 10m..15m") from None
        if not beat:
            # A beat of zero has no multiples: as a band it is due again at the end of each run.
            return cls.parse(f"{text}..{text}")
        return cls(written(beat), beat=beat)

    @classmethod
    def of_cron(cls, expression: str, zone: str | None = None) -> "Cadence":
        """Raises ValueError, one sentence."""
        from cronlease.slots import Cron

        zone = zone or "UTC"
        if not isinstance(expression, str) or not isinstance(zone, str):
            raise ValueError(f'{expression!r} in {zone!r} is not a cron: write texts such as "0 9 * * 1-5" and "UTC"')
        Cron.parse(expression, zone)
        return cls(f"{expression} {zone}", cron=(expression, zone))

    @classmethod
    def of_row(cls, every: str | None, cron: str | None, zone: str | None) -> "Cadence | None":
        """A row's own cadence, with the text that SQL compares; None if it has none. Raises ValueError."""
        if cron is not None:
            return cls.of_cron(cron, zone)
        return None if every is None else cls.parse(every)._replace(text=every)

    @property
    def has_slots(self) -> bool:
        return self.beat is not None or self.cron is not None

    @property
    def early(self) -> timedelta:
        """How early a hit may come for its slot; the same as refresh_early in SQL."""
        if self.beat is not None:
            return min(self.beat / 10, _EARLIEST)
        return _EARLY_FOR_A_CRON if self.cron is not None else timedelta(0)

    def slots(self, anchor: datetime) -> "Slots":
        """The slots of a beat, counted from the anchor, or of a cron."""
        from cronlease.slots import Beat, Cron

        if self.cron is not None:
            return Cron.parse(*self.cron)
        assert self.beat is not None, "a band and a hit have no slots"
        return Beat(anchor, self.beat)

    def late_after(self, slot: datetime) -> timedelta | None:
        """How long after this slot its run counts as late. Only for a cron, whose intervals depend on the calendar:
        for anything else SQL derives it from the text."""
        if self.cron is None:
            return None
        return max(_LEAST_LATE, 2 * (self.slots(slot).after(slot) - slot))

    def __str__(self) -> str:
        return self.text


class Backoff(NamedTuple):
    """What a failure costs: a draw from the band, times growth for each earlier failure, up to the cap."""

    band: Every
    growth: float
    cap: timedelta

    def draw(self, failures: int, source: random.Random) -> timedelta:
        """`failures` includes the one that has just happened, so it is at least 1."""
        drawn = self.band.draw(source).total_seconds()
        ceiling = self.cap.total_seconds()
        # Multiplied step by step: growth ** 1000 would overflow long after the cap was reached.
        for _ in range(failures - 1):
            if self.growth == 1 or drawn >= ceiling:
                break
            drawn *= self.growth
        return timedelta(seconds=min(drawn, ceiling))
