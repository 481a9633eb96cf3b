"""What can be run, and what asked for it. Knows nothing of HTTP, leases or databases."""

import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from cronlease.cadence import Backoff, Every
from cronlease.settings import Limits, Settings, SettingsError


class Job(NamedTuple):
    """A registered function with its times: its decorator's, or the environment's where that says nothing."""

    name: str
    function: Callable[[Any], Any]
    limits: Limits
    every: Every
    backoff: Backoff
    retention: timedelta
    # Whether it has a schedule row of its own name; an action has those that people make for it.
    has_row: bool = True

    @classmethod
    def of(
        cls,
        function: Callable[[Any], Any],
        settings: Settings,
        *,
        name: str | None = None,
        lease: timedelta | None = None,
        every: Every | None = None,
        backoff: Every | None = None,
        has_row: bool = True,
    ) -> "Job":
        """Raises SettingsError when the function's own times do not fit the settings, or it is no job."""
        settings.check(lease, backoff)
        _check_job(function)
        return cls(
            name or function.__name__,
            function,
            settings.limits(lease),
            every or settings.every,
            settings.backoff_rule(backoff),
            settings.retention,
            has_row,
        )


class Hit(NamedTuple):
    """What a caller asked for, and who it says it is. Never decides whether to run, except by force."""

    trigger: str = "manual"
    job_name: str | None = None
    schedule_time: str | None = None
    force: bool = False
    args: Mapping[str, Any] = MappingProxyType({})
    # Names what was delivered, the same for each repeat of it: see slot_delivery. None where the trigger has no name.
    delivery: str | None = None


def slot_delivery(schedule: str | None, slot: str | None) -> str | None:
    """The name of what a scheduler delivers for one slot: the schedule's name and the slot in UTC. None where either
    is missing, or the slot is not a time with a zone."""
    try:
        moment = datetime.fromisoformat(slot or "")
        if not schedule or moment.tzinfo is None:
            return None
        return f"{schedule} {moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError):
        return None


def _check_job(function: Callable[[Any], Any]) -> None:
    """What would seem to run, and would not, is refused when it is declared."""
    made_of = inspect.unwrap(function)
    if inspect.isgeneratorfunction(made_of) or inspect.isasyncgenfunction(made_of):
        raise SettingsError("a job must not yield: it would never run")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise SettingsError("a job takes one argument, the run") from None
    except ValueError:
        # A builtin that does not tell its signature.
        return
