"""When a job is hit: a cron expression in a time zone, or every so often. Pure: takes the time as an argument.

At a change of clocks: a time that is left out comes when the clocks have jumped; a time that there are two of comes
once, the first time; what recurs within the hour or every hour (`*` in those fields) goes by elapsed time.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, Self
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

# Fewer signs than the library takes: what Cloud Scheduler would refuse is refused here.
_TERM = re.compile(r"\*|\d+|[a-z]{3}", re.IGNORECASE)
_SEPARATOR = re.compile("[,/-]")


class Slots(Protocol):
    """The moments at which a job is hit."""

    def after(self, moment: datetime) -> datetime:
        """The first one after that moment."""


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields, names allowed, 0 and 7 are Sunday; wall-clock time of the zone."""

    expression: str
    zone: ZoneInfo

    @classmethod
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
            made.after(datetime.now(UTC))
        except CronSimError as error:
            why = f"{str(error)[:1].lower()}{str(error)[1:]}"
            raise ValueError(
                f"{expression!r} is no cron expression ({why}): write five fields, such as */5 * * * *"
            ) from None
        return made

    def after(self, moment: datetime) -> datetime:
        try:
            # The library starts from the wall clock, which may show a time for the second time: then what it
            # finds first may be past already.
            return next(
                in_utc
                for slot in CronSim(self.expression, moment.astimezone(self.zone))
                if (in_utc := slot.astimezone(UTC)) > moment
            )
        except StopIteration:
            raise CronSimError("it never comes") from None


@dataclass(frozen=True, slots=True)
class Steady:
    """Every so often, from the first moment on."""

    first: datetime
    every: timedelta

    def after(self, moment: datetime) -> datetime:
        return max(self.first, self.first + ((moment - self.first) // self.every + 1) * self.every)
