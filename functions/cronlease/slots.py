"""The slots of a cadence: moments of the calendar, or of a beat. Pure: takes the time as an argument.

When the clocks change: a time that is skipped comes right after the jump; a time that occurs twice comes once, the
first time; a cron that recurs within the hour or every hour (`*` in those fields) goes by elapsed time.
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

# Missed slots are counted only up to this many: the claim waits for the count.
MOST_COUNTED = 10_000
# Stricter than the library: what Cloud Scheduler would refuse is refused here.
_TERM = re.compile(r"\*|\d+|[a-z]{3}", re.IGNORECASE)
_SEPARATOR = re.compile("[,/-]")
_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
# No zone changes its clocks twice within this time.
_STEP = timedelta(hours=12)
# Far enough for 29 February, which comes only after eight years around 2100.
_FARTHEST = timedelta(days=40 * 366)


class Coming(Protocol):
    """An endless, ordered sequence of moments."""

    def after(self, moment: datetime) -> datetime:
        """The first one after that moment."""


class Slots(Coming, Protocol):
    """One that can also be searched backwards."""

    def latest(self, moment: datetime) -> datetime | None:
        """The last one at or before that moment; None if there is none."""

    def count(self, first: datetime, before: datetime) -> int:
        """How many there are from `first` on and before `before`, up to MOST_COUNTED."""


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields, with names; 0 and 7 are Sunday. Goes by the wall clock of the zone."""

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
            raise ValueError(f"{zone!r} is not a time zone: write a name such as Europe/Berlin or Etc/UTC") from None
        try:
            if len(fields) != 5:
                raise CronSimError(f"it has {len(fields)} fields")
            if not all(map(_TERM.fullmatch, terms)):
                raise CronSimError("a field has numbers, names, and the signs * , - /")
            made = cls(expression, known)
            # Whether it ever comes does not depend on the start.
            made.after(datetime(2000, 1, 1, tzinfo=UTC))
        except CronSimError as error:
            why = f"{str(error)[:1].lower()}{str(error)[1:]}"
            raise ValueError(
                f"{expression!r} is not a cron expression ({why}): write five fields, such as */5 * * * *"
            ) from None
        return made

    def after(self, moment: datetime) -> datetime:
        for slot in self._each_after(moment):
            return slot
        raise CronSimError("it never comes")

    def latest(self, moment: datetime) -> datetime | None:
        """Searches with `after` alone, so that both agree at every change of clocks."""
        reach = _MINUTE
        while (latest := self.after(moment - reach)) > moment:
            reach *= 4
            if reach > _FARTHEST:
                return None
        ceiling = moment
        while (following := self.after(latest)) <= moment:
            middle = latest + (ceiling - latest) / 2
            later = self.after(middle)
            if later <= moment:
                latest = later
            else:
                # There is none between the middle and the moment.
                latest, ceiling = following, middle
        return latest

    def count(self, first: datetime, before: datetime) -> int:
        slots = self._each_after(first - timedelta(microseconds=1))
        return sum(1 for _ in islice(takewhile(lambda slot: slot < before, slots), MOST_COUNTED))

    def _each_after(self, moment: datetime) -> Iterator[datetime]:
        minute, hour = self.expression.split()[:2]
        recurs = minute.startswith("*") or hour.startswith("*")
        return self._by_elapsed_time(moment) if recurs else self._by_wall_clock(moment)

    def _by_wall_clock(self, moment: datetime) -> Iterator[datetime]:
        """Drops what the library yields too early or twice: it starts from the wall clock, which may show a time for
        the second time, and reaches the end of a jump more than once."""
        last = moment
        for slot in CronSim(self.expression, moment.astimezone(self.zone)):
            in_utc = slot.astimezone(UTC)
            if in_utc > last:
                last = in_utc
                yield in_utc

    def _by_elapsed_time(self, moment: datetime) -> Iterator[datetime]:
        """Between two changes of the zone's clock, computes with a fixed offset: the library itself loses slots where
        clocks move by half an hour, or jump over midnight."""
        offset: timedelta | None = self._offset(moment)
        while offset is not None:
            ahead, offset = offset, None
            for wall in CronSim(self.expression, (moment + ahead).astimezone(UTC)):
                slot = wall - ahead
                change = self._change(moment, ahead, slot)
                if change is not None:
                    # A slot may fall on the change itself.
                    moment, offset = change - _SECOND, self._offset(change)
                    break
                yield slot
                moment = slot

    def _offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self.zone).utcoffset() or timedelta(0)

    def _change(self, after: datetime, offset: timedelta, until: datetime) -> datetime | None:
        """The first second after `after`, up to `until`, at which the zone's clock has another offset."""
        while self._offset(changed := min(after + _STEP, until)) == offset:
            if changed == until:
                return None
            after = changed
        while changed - after > _SECOND:
            middle = (after + (changed - after) / 2).replace(microsecond=0)
            if middle <= after:
                break
            after, changed = (middle, changed) if self._offset(middle) == offset else (after, middle)
        return changed


@dataclass(frozen=True, slots=True)
class Beat:
    """At fixed intervals: the anchor and whole multiples from there, both ways."""

    anchor: datetime
    every: timedelta

    def after(self, moment: datetime) -> datetime:
        return self.anchor + ((moment - self.anchor) // self.every + 1) * self.every

    def latest(self, moment: datetime) -> datetime | None:
        return self.anchor + ((moment - self.anchor) // self.every) * self.every

    def count(self, first: datetime, before: datetime) -> int:
        return max(0, min(MOST_COUNTED, -((first - before) // self.every)))


def coming(slots: Coming, moment: datetime, number: int) -> list[datetime]:
    """The next `number` slots after that moment."""
    upcoming: list[datetime] = []
    while len(upcoming) < number:
        moment = slots.after(moment)
        upcoming.append(moment)
    return upcoming
