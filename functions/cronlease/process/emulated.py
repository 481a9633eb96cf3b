"""The times of a function in an emulated process: shorter than its decorator says, or a demonstration would see a
single run. The emulator marks the process by EMULATED in its environment, and the decorators ask here."""

from datetime import timedelta
from typing import NamedTuple

from cronlease.cadence import Every, written
from cronlease.settings import Settings

EMULATED = "CRONLEASE_EMULATED"
# The value of EMULATED where the environment's times are upper limits; else it is a factor: how much faster time is.
CAPPED = "capped"
# A file that the emulator writes its verdict so far into, for the status page.
VERDICT = "CRONLEASE_EMULATOR_VERDICT"
_SHORTEST_LEASE = timedelta(seconds=1)


class Times(NamedTuple):
    """What a decorator says; None is left to the environment."""

    lease: timedelta | None = None
    every: Every | None = None
    backoff: Every | None = None

    def shortened(self, how: str, settings: Settings) -> "Times":
        """What the emulated function has instead."""
        if how == CAPPED:
            return Times(
                self.lease and min(self.lease, settings.lease),
                self.every and _capped(self.every, settings.every),
                self.backoff and _capped(self.backoff, settings.backoff),
            )
        speed = float(how)
        return Times(
            self.lease and faster_lease(self.lease, speed),
            self.every and faster(self.every, speed),
            self.backoff and faster(self.backoff, speed),
        )

    def filled(self, settings: Settings) -> "Times":
        """With the environment's times where the decorator says nothing."""
        return Times(self.lease or settings.lease, self.every or settings.every, self.backoff or settings.backoff)

    def __str__(self) -> str:
        named = zip(("every", "lease", "backoff"), (self.every, self.lease, self.backoff), strict=True)
        return ", ".join(
            f"{name} {written(time) if isinstance(time, timedelta) else time}" for name, time in named if time
        )


def faster_lease(lease: timedelta, speed: float) -> timedelta:
    return max(lease / speed, _SHORTEST_LEASE)


def faster(band: Every, speed: float) -> Every:
    # Whole milliseconds: less could not be written as a duration.
    return Every(*(timedelta(milliseconds=end / speed // timedelta(milliseconds=1)) for end in band))


def _capped(band: Every, limit: Every) -> Every:
    return Every(min(band.low, limit.low), min(band.high, limit.high))
