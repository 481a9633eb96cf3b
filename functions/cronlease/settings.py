"""Environment -> frozen Settings, checked once at the start: numbers that cannot hold together refuse to start.

A limit that was not set is derived from the lease; only limits that were set can be refused.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from cronlease.cadence import Backoff, Every, duration, written

PREFIX = "CRONLEASE_"
_LIBPQ_TARGETS = ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE")
_PLATFORM_MARKS = ("K_SERVICE", "KUBERNETES_SERVICE_HOST")


class SettingsError(ValueError):
    """A setting a person must mend; the text is one sentence that says how."""


def _duration(value: Any) -> Any:
    return duration(value) if isinstance(value, str) else value


def _band(value: Any) -> Any:
    return Every.parse(value) if isinstance(value, str) else value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Band = Annotated[Every, BeforeValidator(_band)]


@dataclass(frozen=True, slots=True)
class Limits:
    """Every time limit of one run, fitted to its lease."""

    lease: timedelta
    acquire: timedelta
    max_run: timedelta

    @property
    def renew_every(self) -> timedelta:
        return self.lease / 3

    @property
    def idle_in_transaction(self) -> timedelta:
        return min(timedelta(seconds=15), self.lease / 2)

    @property
    def lock_wait(self) -> timedelta:
        return min(timedelta(seconds=2), self.lease / 2)


class Settings(BaseModel):
    """The environment as the program sees it. Field x is the variable CRONLEASE_X."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    database_url: str | None = None
    on_platform: bool = False
    libpq_target: bool = False

    lease: Duration = timedelta(minutes=5)
    every: Band = Every(timedelta(minutes=10), timedelta(minutes=15))
    backoff: Band = Every(timedelta(minutes=20), timedelta(minutes=40))
    backoff_growth: Annotated[float, Field(ge=1, le=10)] = 1
    backoff_cap: Duration | None = None
    max_run: Duration | None = None
    acquire_timeout: Duration | None = None
    drain_seconds: Annotated[float, Field(ge=0)] = 6
    retention: Duration = timedelta(days=30)
    auth: Literal["none", "iam"] | None = None
    pooler: Literal["auto", "none", "transaction"] = "auto"
    migrate: Literal["auto", "never"] = "auto"
    data_dir: str | None = None
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    def limits(self, lease: timedelta | None = None) -> Limits:
        """The limits for that lease, or for the default one."""
        lease = lease or self.lease
        return Limits(
            lease=lease,
            acquire=self.acquire_timeout or min(timedelta(seconds=10), lease),
            max_run=self.max_run or timedelta(minutes=15),
        )

    def backoff_rule(self, band: Every | None = None) -> Backoff:
        band = band or self.backoff
        cap = self.backoff_cap or max(timedelta(hours=6), band.high)
        return Backoff(band, self.backoff_growth, cap)

    def check(self, lease: timedelta | None = None, backoff: Every | None = None) -> None:
        """Raises the sentence for the first pair that cannot hold together, for one function's own values."""
        lease, band = lease or self.lease, backoff or self.backoff
        pairs: tuple[tuple[str, timedelta | None, str, timedelta, str], ...] = (
            ("CRONLEASE_ACQUIRE_TIMEOUT", self.acquire_timeout, "CRONLEASE_LEASE", lease, "at most"),
            (
                "CRONLEASE_MAX_RUN",
                self.max_run,
                "CRONLEASE_ACQUIRE_TIMEOUT",
                self.limits(lease).acquire,
                "above",
            ),
            (
                "CRONLEASE_BACKOFF_CAP",
                self.backoff_cap,
                "the upper end of CRONLEASE_BACKOFF",
                band.high,
                "at least",
            ),
        )
        if lease < timedelta(seconds=1):
            raise SettingsError(f"CRONLEASE_LEASE is {written(lease)}: a lease is at least 1s")
        for name, value, other, bound, rule in pairs:
            broken = (
                value is not None
                and {
                    "at most": value > bound,
                    "above": value <= bound,
                    "at least": value < bound,
                }[rule]
            )
            if value is not None and broken:
                raise SettingsError(f"{name} is {written(value)}, but it must be {rule} {other}, {written(bound)}")


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Reads the environment; raises SettingsError, one sentence a person can act on."""
    env = os.environ if environ is None else environ
    values: dict[str, Any] = {
        "database_url": env.get("DATABASE_URL") or None,
        "on_platform": any(env.get(mark) for mark in _PLATFORM_MARKS),
        "libpq_target": any(env.get(name) for name in _LIBPQ_TARGETS),
    }
    for name in Settings.model_fields:
        text = env.get(PREFIX + name.upper())
        if text and name not in values:
            values[name] = text
    platform_timeout = env.get("CLOUD_RUN_TIMEOUT_SECONDS", "")
    if "max_run" not in values and platform_timeout.isdigit() and int(platform_timeout) > 0:
        values["max_run"] = f"{platform_timeout}s"
    if values.get("auth") in ("oidc", "token"):
        raise SettingsError(f"CRONLEASE_AUTH={values['auth']} is not built yet: use iam, or none on your own machine")
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise SettingsError(_sentence(error)) from None
    settings.check()
    if settings.on_platform:
        _check_platform(settings)
    return settings


def _check_platform(settings: Settings) -> None:
    if settings.database_url is None and not settings.libpq_target:
        raise SettingsError(
            "no database is configured: set DATABASE_URL (on a platform each instance would guard only itself)"
        )
    if settings.auth is None:
        raise SettingsError("CRONLEASE_AUTH is not set: write iam where the platform checks callers, or none")


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    name = PREFIX + str(first["loc"][0]).upper()
    reason = first["msg"].removeprefix("Value error, ")
    return f"{name}: {reason}" if "error" in first.get("ctx", {}) else f"{name} is {first['input']!r}: {reason}"
