"""The times of an emulated function: shorter than its decorator says, or a demonstration would see a single run. The
emulator sets EMULATED in the environment of the process, and the decorators ask here."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cronlease.cadence import Cadence, Every, written
from cronlease.settings import Settings

EMULATED = "CRONLEASE_EMULATED"
# The value of EMULATED where the environment's times are upper limits. Any other value is a factor of speed.
CAPPED = "capped"
# The file with the emulator's verdict so far, for the status page.
VERDICT = "CRONLEASE_EMULATOR_VERDICT"
_SHORTEST_LEASE = timedelta(seconds=1)
_SHORTEST_BEAT = timedelta(milliseconds=100)
_SOME_DAY = datetime(2026, 1, 5, tzinfo=UTC)


class Times(NamedTuple):
    """The times that a decorator declares; the environment decides where it is None."""

    lease: timedelta | None = None
    every: Cadence | None = None
    backoff: Every | None = None

    def shortened(self, how: str, settings: Settings) -> "Times":
        """The times of the emulated function."""
        if how == CAPPED:
            return Times(
                self.lease and min(self.lease, settings.lease),
                self.every and _capped_cadence(self.every, settings.every),
                self.backoff and _capped(self.backoff, settings.backoff),
            )
        speed = float(how)
        return Times(
            self.lease and faster_lease(self.lease, speed),
            self.every and faster_cadence(self.every, speed),
            self.backoff and faster(self.backoff, speed),
        )

    def filled(self, settings: Settings) -> "Times":
        """Takes the environment's times where the decorator declares none."""
        return Times(self.lease or settings.lease, self.every or settings.cadence(), self.backoff or settings.backoff)

    def __str__(self) -> str:
        named = zip(("every", "lease", "backoff"), (self.every, self.lease, self.backoff), strict=True)
        return ", ".join(
            f"{name} {written(time) if isinstance(time, timedelta) else time}" for name, time in named if time
        )


def faster_lease(lease: timedelta, speed: float) -> timedelta:
    return max(lease / speed, _SHORTEST_LEASE)


def faster(band: Every, speed: float) -> Every:
    return Every(*(_whole_milliseconds(end / speed) for end in band))


def faster_cadence(cadence: Cadence, speed: float) -> Cadence:
    """A calendar cannot run faster: a beat replaces a cron."""
    if cadence.band is not None:
        band = faster(cadence.band, speed)
        return Cadence(str(band), band=band)
    if cadence.beat is not None:
        return _beat(cadence.beat / speed)
    if cadence.cron is not None and speed != 1:
        from itertools import pairwise

        from cronlease.slots import coming

        slots = coming(cadence.slots(_SOME_DAY), _SOME_DAY, 10)
        return _beat(min(later - earlier for earlier, later in pairwise(slots)) / speed)
    return cadence


def _beat(length: timedelta) -> Cadence:
    return Cadence.parse(written(_whole_milliseconds(max(length, _SHORTEST_BEAT))))


def _whole_milliseconds(length: timedelta) -> timedelta:
    """A duration cannot express less."""
    return timedelta(milliseconds=length // timedelta(milliseconds=1))


def _capped_cadence(cadence: Cadence, limit: Cadence) -> Cadence:
    if cadence.band is not None and limit.band is not None:
        band = _capped(cadence.band, limit.band)
        return Cadence(str(band), band=band)
    if cadence.beat is not None and limit.band is not None:
        return _beat(min(cadence.beat, limit.band.high))
    return cadence


def _capped(band: Every, limit: Every) -> Every:
    return Every(min(band.low, limit.low), min(band.high, limit.high))
