"""The slots of a cadence: moments of the calendar, or of a beat. Pure: takes the time as an argument.

At a change of clocks: a time that is left out comes when the clocks have jumped; a time that there are two of comes
once, the first time; what recurs within the hour or every hour (`*` in those fields) goes by elapsed time.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Protocol, Self
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

# What is missed longer than this many slots is not counted to the end: the claim waits for the count.
MOST_COUNTED = 10_000
# Fewer signs than the library takes: what Cloud Scheduler would refuse is refused here.
_TERM = re.compile(r"\*|\d+|[a-z]{3}", re.IGNORECASE)
_SEPARATOR = re.compile("[,/-]")
_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
# No zone changes its clocks twice in as short a time.
_STEP = timedelta(hours=12)
# The 29 February of every eighth year is a slot, too, around 2100.
_FARTHEST = timedelta(days=40 * 366)


class Coming(Protocol):
    """Moments in order, without an end."""

    def after(self, moment: datetime) -> datetime:
        """The first one after that moment."""


class Slots(Coming, Protocol):
    """Moments that can be looked back at."""

    def latest(self, moment: datetime) -> datetime | None:
        """The last one at or before that moment; None where none is found."""

    def count(self, first: datetime, before: datetime) -> int:
        """How many there are from that one on and before the other moment, up to MOST_COUNTED."""


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields, names allowed, 0 and 7 are Sunday; wall-clock time of the zone."""

    expression: str
    zone: ZoneInfo

    @classmethod
    @functools.lru_cache(maxsize=256)
    def parse(cls, expression: str, zone: str) -> Self:
        """Raises ValueError, one sentence that says what to write."""
        fields = expression.split()
        terms = [term for field in fields for term in _SEPARATOR.split(field)]
        try:
            known = ZoneInfo(zone)
        except (KeyError, OSError, ValueError):
            raise ValueError(f"{zone!r} is no time zone: write a name such as Europe/Berlin or Etc/UTC") from None
        try:
            if len(fields) != 5:
                raise CronSimError(f"it has {len(fields)} fields")
            if not all(map(_TERM.fullmatch, terms)):
                raise CronSimError("a field has numbers, names, and the signs * , - /")
            made = cls(expression, known)
            # Whether it ever comes does not depend on when one asks.
            made.after(datetime(2000, 1, 1, tzinfo=UTC))
        except CronSimError as error:
            why = f"{str(error)[:1].lower()}{str(error)[1:]}"
            raise ValueError(
                f"{expression!r} is no cron expression ({why}): write five fields, such as */5 * * * *"
            ) from None
        return made

    def after(self, moment: datetime) -> datetime:
        for slot in self._each_after(moment):
            return slot
        raise CronSimError("it never comes")

    def latest(self, moment: datetime) -> datetime | None:
        """Searched with `after` alone, so that both ways agree at every change of clocks."""
        reach = _MINUTE
        while (found := self.after(moment - reach)) > moment:
            reach *= 4
            if reach > _FARTHEST:
                return None
        ceiling = moment
        while (following := self.after(found)) <= moment:
            middle = found + (ceiling - found) / 2
            later = self.after(middle)
            if later <= moment:
                found = later
            else:
                # Nothing lies between the middle and the moment.
                found, ceiling = following, middle
        return found

    def count(self, first: datetime, before: datetime) -> int:
        slots = self._each_after(first - timedelta(microseconds=1))
        return sum(1 for _ in islice(takewhile(lambda slot: slot < before, slots), MOST_COUNTED))

    def _each_after(self, moment: datetime) -> Iterator[datetime]:
        minute, hour = self.expression.split()[:2]
        recurs = minute.startswith("*") or hour.startswith("*")
        return self._by_elapsed_time(moment) if recurs else self._by_wall_clock(moment)

    def _by_wall_clock(self, moment: datetime) -> Iterator[datetime]:
        """The library starts from the wall clock, which may show a time for the second time, and comes more than once
        to the end of a jump: what it finds may be past already."""
        last = moment
        for slot in CronSim(self.expression, moment.astimezone(self.zone)):
            in_utc = slot.astimezone(UTC)
            if in_utc > last:
                last = in_utc
                yield in_utc

    def _by_elapsed_time(self, moment: datetime) -> Iterator[datetime]:
        """On a clock that does not change, from one change of the zone's clock to the next: the library's own way
        loses slots where clocks move by half an hour, or jump over midnight."""
        offset: timedelta | None = self._offset(moment)
        while offset is not None:
            ahead, offset = offset, None
            for wall in CronSim(self.expression, (moment + ahead).astimezone(UTC)):
                slot = wall - ahead
                change = self._change(moment, ahead, slot)
                if change is not None:
                    # A slot may come at the very change.
                    moment, offset = change - _SECOND, self._offset(change)
                    break
                yield slot
                moment = slot

    def _offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self.zone).utcoffset() or timedelta(0)

    def _change(self, after: datetime, offset: timedelta, until: datetime) -> datetime | None:
        """The first second in that time at which the zone's clock has another offset."""
        while self._offset(found := min(after + _STEP, until)) == offset:
            if found == until:
                return None
            after = found
        while found - after > _SECOND:
            middle = (after + (found - after) / 2).replace(microsecond=0)
            if middle <= after:
                break
            after, found = (middle, found) if self._offset(middle) == offset else (after, middle)
        return found


@dataclass(frozen=True, slots=True)
class Beat:
    """Every so often: one moment of it and whole multiples from there, both ways."""

    anchor: datetime
    every: timedelta

    def after(self, moment: datetime) -> datetime:
        return self.anchor + ((moment - self.anchor) // self.every + 1) * self.every

    def latest(self, moment: datetime) -> datetime | None:
        return self.anchor + ((moment - self.anchor) // self.every) * self.every

    def count(self, first: datetime, before: datetime) -> int:
        return max(0, min(MOST_COUNTED, -((first - before) // self.every)))


@dataclass(frozen=True, slots=True)
class Steady:
    """Every so often, from the first moment on."""

    first: datetime
    every: timedelta

    def after(self, moment: datetime) -> datetime:
        return max(self.first, Beat(self.first, self.every).after(moment))


def coming(slots: Coming, moment: datetime, number: int) -> list[datetime]:
    """The next so many after that moment."""
    found: list[datetime] = []
    while len(found) < number:
        moment = slots.after(moment)
        found.append(moment)
    return found
