"""What can be run, and the hit that asked for it. Knows nothing of HTTP, leases or databases."""

import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from cronlease.cadence import HIT, Backoff, Cadence, Every
from cronlease.db.alerts import Watch, name_of
from cronlease.settings import Limits, Settings, SettingsError, check_missed

_BREAKS = {"Cc", "Zl", "Zp"}
_EXAMPLES = {"every": '"6h" or "10m..15m"', "cron": '"0 9 * * 1-5"', "time_zone": '"Europe/Berlin"'}


class Job(NamedTuple):
    """A registered function with its times: its decorator's, else the environment's."""

    name: str
    function: Callable[[Any], Any]
    limits: Limits
    cadence: Cadence
    backoff: Backoff
    retention: timedelta
    # Whether it has a schedule row of its own name; an action has the rows that people make for it.
    has_row: bool = True
    # How late a slot may still be run; None: any missed slot is run, once.
    late: timedelta | None = None
    # How many runs a slot gets; None: three, or any number for a one-shot.
    attempts: int | None = None
    # How late its row may be before an alert; None: twice its interval.
    late_alert: timedelta | None = None
    # Its breaker, and where alerts go.
    watch: Watch = Watch()
    # Whether a backoff was set; if not, the next hit of a trigger that owns the schedule runs immediately.
    backoff_given: bool = False

    @classmethod
    def of(
        cls,
        function: Callable[[Any], Any],
        settings: Settings,
        *,
        name: str | None = None,
        lease: timedelta | None = None,
        every: Cadence | None = None,
        backoff: Every | None = None,
        missed: str | None = None,
        late: timedelta | None = None,
        attempts: int | None = None,
        late_alert: timedelta | None = None,
        pause_after: int | None = None,
        probe: timedelta | None = None,
        has_row: bool = True,
    ) -> "Job":
        """Raises SettingsError if the function's own times do not fit the settings, or it cannot be a job."""
        settings.check(lease, backoff)
        _check_job(function)
        cadence = every or settings.cadence()
        if cadence.text == HIT and not has_row:
            if every is not None:
                raise SettingsError('every="hit" is for a function with a trigger of its own: an action has none')
            cadence = Settings().every
        missed, late = (missed, late) if missed or late else (settings.missed, settings.late)
        check_missed(missed, late)
        if attempts is not None and (type(attempts) is not int or attempts < 1):
            raise SettingsError(f"attempts is {attempts!r}: a slot has at least one attempt")
        if pause_after is not None and (type(pause_after) is not int or pause_after < 1):
            raise SettingsError(
                f"pause_after is {pause_after!r}: a breaker opens after a whole number of failed runs"
            )
        watch = Watch(
            pause_after or settings.pause_after,
            probe or settings.probe,
            addresses=tuple(map(name_of, settings.alert_url)),
        )
        return cls(
            name or function.__name__,
            function,
            settings.limits(lease),
            cadence,
            settings.backoff_rule(backoff),
            settings.retention,
            has_row,
            late,
            attempts or settings.attempts,
            late_alert,
            watch,
            backoff is not None or settings.backoff_given,
        )


def cadence_of(settings: Settings, every: str | None, cron: str | None, time_zone: str | None) -> Cadence | None:
    """The cadence that code or a command line asks for; None if it asks for none. Raises ValueError."""
    for option, given in (("every", every), ("cron", cron), ("time_zone", time_zone)):
        if not isinstance(given, str | None):
            raise SettingsError(f"{option} is {given!r}: write it as a text, such as {_EXAMPLES[option]}")
    if cron:
        if every:
            raise SettingsError("every and cron are both given: keep only one of them")
        return Cadence.of_cron(cron, time_zone or settings.time_zone)
    if time_zone:
        raise SettingsError("time_zone is for a cron: write cron=...")
    return Cadence.parse(every) if every else None


def check_slots(cadence: Cadence | None, missed: str | None, attempts: int | None) -> None:
    """Raises SettingsError for options about slots with a cadence that has none, in the same words as SQL."""
    if cadence is None or cadence.has_slots:
        return
    if missed == "skip":
        raise SettingsError(
            f"only a beat or a cron has slots to skip, and {cadence} has none: leave out missed and late"
        )
    if attempts is not None:
        raise SettingsError(f"only a slot of a beat or a cron has attempts, and {cadence} has none: leave them out")


def check_new_name(name: str) -> None:
    """Raises ValueError, one sentence, for a text that cannot name a new row. Existing rows are never checked: they
    must stay within reach."""
    from unicodedata import category

    if not isinstance(name, str) or not name.strip():
        raise ValueError("a name must not be empty")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError("a name is UTF-8") from None
    if any(category(char) in _BREAKS for char in name):
        raise ValueError("a name has no line breaks and no control characters in it")


class Hit(NamedTuple):
    """What a caller asked for, and who it claims to be. Only `force` and, with every="hit", the delivery decide
    whether it runs."""

    trigger: str = "manual"
    job_name: str | None = None
    schedule_time: str | None = None
    force: bool = False
    args: Mapping[str, Any] = MappingProxyType({})
    # The trigger's name for this delivery: the same for each repeat, and different for any other delivery.
    delivery: str | None = None
    # When it was to be delivered, if the trigger says so.
    delivery_at: datetime | None = None

    @classmethod
    def of_slot(cls, trigger: str, schedule: str | None, slot: str | None, **fields: Any) -> "Hit":
        """A scheduler's delivery for one of its slots. If the slot's time and zone cannot be read, the delivery
        has no name, and simply runs."""
        at = _moment(slot)
        if slot and at is None:
            _warn_of_unreadable(trigger, slot)
        named = f"{schedule} {at:%Y-%m-%dT%H:%M:%S.%fZ}" if schedule and at else None
        return cls(trigger, schedule, slot, delivery=named, delivery_at=at, **fields)


def _warn_of_unreadable(trigger: str, slot: str) -> None:
    import logging

    from cronlease.observe.logs import log

    log(
        logging.WARNING,
        f"The delivery time {slot!r} of {trigger} is not a time with a zone: repeats of it cannot be recognized",
        action="delivery_unreadable",
        trigger=trigger,
    )


def _moment(text: str | None) -> datetime | None:
    """In UTC; None if it is not a time with a zone."""
    try:
        moment = datetime.fromisoformat(text or "")
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _check_job(function: Callable[[Any], Any]) -> None:
    """Refuses at declaration what would seem to run, but would not."""
    made_of = inspect.unwrap(function)
    if inspect.isgeneratorfunction(made_of) or inspect.isasyncgenfunction(made_of):
        raise SettingsError("a job must not yield: it would never run")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise SettingsError("a job takes one argument, the run") from None
    except ValueError:
        # A builtin without a signature.
        return
