"""Reads the environment into Settings, once at startup: contradictory settings stop it.

A limit that was not set is derived from the lease; only limits that were set can be refused. Settings is a NamedTuple
and not a pydantic model: importing pydantic would take a fifth of the time to the first answer of a cold start.
"""

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from cronlease.cadence import Backoff, Cadence, Every, duration, written
from cronlease.readers import READERS, tokens

PREFIX = "CRONLEASE_"
CRON_SECRET = "CRON_SECRET"  # noqa: S105 (the variable's name)
_LIBPQ_TARGETS = ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE")
# Set by Cloud Run, Kubernetes, Lambda, Azure Functions, Vercel, Render, Fly, Railway and Heroku.
PLATFORM_MARKS = (
    *("K_SERVICE", "CLOUD_RUN_JOB", "KUBERNETES_SERVICE_HOST", "AWS_LAMBDA_FUNCTION_NAME"),
    *("FUNCTIONS_WORKER_RUNTIME", "VERCEL", "RENDER", "FLY_APP_NAME", "RAILWAY_ENVIRONMENT", "DYNO"),
)
_EVERY = Cadence("10m..15m", band=Every(timedelta(minutes=10), timedelta(minutes=15)))
_BACKOFF = Every(timedelta(minutes=20), timedelta(minutes=40))
# The same limits as in schema/cronlease/functions.
_LONGEST_LEASE = timedelta(days=1)
_LONGEST_BACKOFF = timedelta(days=400)
_SHORTEST_RETENTION = timedelta(hours=1)


class SettingsError(ValueError):
    """A setting that a person must correct; its text is one sentence that says how."""


class Limits(NamedTuple):
    """Every time limit of one run, fitted to its lease."""

    lease: timedelta
    acquire: timedelta
    max_run: timedelta

    @property
    def renew_every(self) -> timedelta:
        return self.lease / 3

    @property
    def grace(self) -> timedelta:
        """How long a job that must end may take for it: short enough to write its end before the last renewal runs
        out and, if the whole run must be short, while its caller still waits."""
        return min(timedelta(seconds=5), max(timedelta(seconds=0.5), self.max_run / 10), self.renew_every)

    @property
    def idle_in_transaction(self) -> timedelta:
        return min(timedelta(seconds=15), self.lease / 2)

    @property
    def lock_wait(self) -> timedelta:
        return min(timedelta(seconds=2), self.lease / 2)


class Settings(NamedTuple):
    """The environment as the program sees it. Field x is the variable CRONLEASE_X, except the first four."""

    database_url: str | None = None
    libpq_target: bool = False
    on_platform: bool = False
    # The variable that set max_run.
    max_run_name: str = "CRONLEASE_MAX_RUN"

    lease: timedelta = timedelta(minutes=5)
    every: Cadence = _EVERY
    cron: str | None = None
    time_zone: str | None = None
    missed: str | None = None
    late: timedelta | None = None
    attempts: int | None = None
    backoff: Every = _BACKOFF
    # Whether the environment set the backoff, or it is the default.
    backoff_given: bool = False
    backoff_growth: float = 1
    backoff_cap: timedelta | None = None
    max_run: timedelta | None = None
    acquire_timeout: timedelta | None = None
    retention: timedelta = timedelta(days=30)
    dispatch_pause: timedelta = timedelta(seconds=1)
    drain_seconds: float = 6
    announce_seconds: float = 0
    auth: str | None = None
    token: tuple[str, ...] = ()
    token_file: Path | None = None
    oidc_audience: str | None = None
    oidc_emails: tuple[str, ...] = ()
    oidc_issuer: str = "https://accounts.google.com"
    oidc_keys_url: str = "https://www.googleapis.com/oauth2/v3/certs"
    allow_force: bool = False
    ping_url: str | None = None
    # A secret, like ping_url.
    alert_url: tuple[str, ...] = ()
    status_url: str | None = None
    pause_after: int | None = None
    probe: timedelta = timedelta(hours=6)
    pooler: str = "auto"
    migrate: str = "auto"
    schema: str = "public"
    log_level: str = "INFO"

    @property
    def has_database(self) -> bool:
        """Whether one is configured; if not, a person's own machine uses the embedded one."""
        return self.database_url is not None or self.libpq_target

    def cadence(self) -> Cadence:
        """For a function that declares none of its own. Raises ValueError."""
        return self.every if self.cron is None else Cadence.of_cron(self.cron, self.time_zone)

    @property
    def status_address(self) -> str | None:
        """The address of this deployment's status page, if it is known; for alerts."""
        audience = self.oidc_audience or ""
        return self.status_url or (f"{audience.rstrip('/')}/status" if audience.startswith("http") else None)

    def limits(self, lease: timedelta | None = None) -> Limits:
        """The limits for this lease, or for the default one."""
        lease, max_run = lease or self.lease, self.max_run or timedelta(minutes=15)
        return Limits(
            lease=lease,
            acquire=self.acquire_timeout or min(timedelta(seconds=10), lease, max_run / 2),
            max_run=max_run,
        )

    def backoff_rule(self, band: Every | None = None) -> Backoff:
        band = band or self.backoff
        return Backoff(band, self.backoff_growth, self.backoff_cap or max(timedelta(hours=6), band.high))

    def check(self, lease: timedelta | None = None, backoff: Every | None = None) -> None:
        """Raises SettingsError for the first contradiction, also with one function's own lease and backoff."""
        name_of_lease = "CRONLEASE_LEASE" if lease is None else "lease"
        lease, band = self.lease if lease is None else lease, backoff or self.backoff
        if lease < timedelta(seconds=1):
            raise SettingsError(f"{name_of_lease} is {written(lease)}: a lease is at least 1s")
        if lease > _LONGEST_LEASE:
            raise SettingsError(f"{name_of_lease} is {written(lease)}: a lease is at most {written(_LONGEST_LEASE)}")
        if self.retention < _SHORTEST_RETENTION:
            kept, least = written(self.retention), written(_SHORTEST_RETENTION)
            raise SettingsError(f"CRONLEASE_RETENTION is {kept}: history is kept for at least {least}")
        for name, longest in (("CRONLEASE_BACKOFF", band.high), ("CRONLEASE_BACKOFF_CAP", self.backoff_cap)):
            if longest is not None and longest > _LONGEST_BACKOFF:
                most = written(_LONGEST_BACKOFF)
                raise SettingsError(f"{name} is {written(longest)}: a failure costs at most {most}")
        if self.acquire_timeout is not None and self.acquire_timeout > lease:
            raise _unfit("CRONLEASE_ACQUIRE_TIMEOUT", self.acquire_timeout, "at most", "CRONLEASE_LEASE", lease)
        if self.max_run is not None and self.acquire_timeout is not None and self.max_run <= self.acquire_timeout:
            acquire = self.acquire_timeout
            raise _unfit(self.max_run_name, self.max_run, "longer than", "CRONLEASE_ACQUIRE_TIMEOUT", acquire)
        check_missed(self.missed, self.late, "CRONLEASE_MISSED", "CRONLEASE_LATE")
        if self.backoff_cap is not None and self.backoff_cap < band.high:
            raise _unfit(
                "CRONLEASE_BACKOFF_CAP", self.backoff_cap, "at least", "the end of CRONLEASE_BACKOFF", band.high
            )


def check_missed(
    missed: str | None, late: timedelta | None, of_missed: str = "missed", of_late: str = "late"
) -> None:
    """Raises SettingsError unless `skip` and how late a slot may be are both given, or neither."""
    if missed not in (None, "once", "skip"):
        raise SettingsError(f"{of_missed} is {missed!r}: write once or skip")
    if (missed == "skip") != (late is not None):
        raise SettingsError(f"{of_missed} skip and {of_late} go together: say how late a slot may be, such as 10m")


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Raises SettingsError, one sentence that a person can act on."""
    env = os.environ if environ is None else environ
    values: dict[str, Any] = {
        "database_url": env.get("DATABASE_URL") or None,
        "libpq_target": any(env.get(name) for name in _LIBPQ_TARGETS),
        "on_platform": any(env.get(mark) for mark in PLATFORM_MARKS),
    }
    for name, read in READERS.items():
        # CRONLEASE_TOKEN may also be a caller's: validate it only where this process checks tokens.
        if name == "token" and values.get("auth") != "token":
            continue
        if text := env.get(PREFIX + name.upper()):
            values[name] = _read(PREFIX + name.upper(), text, read)
    if values.get("auth") == "token" and (secret := env.get(CRON_SECRET)):
        # Vercel's cron sends it.
        values["token"] = (*values.get("token", ()), *_read(CRON_SECRET, secret, tokens))
    # 0 means no timeout.
    if "max_run" not in values and env.get("CLOUD_RUN_TIMEOUT_SECONDS", "0") not in ("0", ""):
        name = "CLOUD_RUN_TIMEOUT_SECONDS"
        values["max_run"] = _read(name, env[name], lambda seconds: duration(seconds + "s"))
        values["max_run_name"] = name
    values["drain_seconds"] = _drain(values.get("drain_seconds"), values.get("announce_seconds", 0))
    # The emulator sets a shorter one, which does not count.
    values["backoff_given"] = "backoff" in values and "CRONLEASE_EMULATED" not in env
    if "every" in values and "cron" in values:
        raise SettingsError("CRONLEASE_EVERY and CRONLEASE_CRON are both set: keep only one of them")
    settings = Settings(**values)
    settings.check()
    _check_auth(settings)
    if settings.on_platform:
        _check_platform(settings)
    return settings


def _read(name: str, text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from None


def _drain(drain: float | None, announce: float) -> float:
    """Runs go on while the shutdown is announced, so draining takes at least as long."""
    if drain is not None and announce > drain:
        limit = f"at most CRONLEASE_DRAIN_SECONDS, {drain:g}"
        raise SettingsError(f"CRONLEASE_ANNOUNCE_SECONDS is {announce:g}, but it must be {limit}")
    return max(Settings().drain_seconds, announce) if drain is None else drain


def _check_platform(settings: Settings) -> None:
    if not settings.has_database:
        raise SettingsError(
            "no database is configured: set DATABASE_URL (on a platform each instance would guard only itself)"
        )
    if settings.auth is None:
        raise SettingsError(
            "CRONLEASE_AUTH is not set: write iam where the platform checks callers, token, oidc, or none"
        )


def _check_auth(settings: Settings) -> None:
    if settings.auth == "token" and not (settings.token or settings.token_file):
        raise SettingsError("CRONLEASE_AUTH is token, but neither CRONLEASE_TOKEN nor CRONLEASE_TOKEN_FILE is set")
    needed = {
        "CRONLEASE_OIDC_AUDIENCE (the service's URL)": settings.oidc_audience,
        "CRONLEASE_OIDC_EMAILS (who may call)": settings.oidc_emails,
    }
    missing = [name for name, value in needed.items() if not value]
    if settings.auth == "oidc" and missing:
        are = "is" if len(missing) == 1 else "are"
        raise SettingsError(f"CRONLEASE_AUTH is oidc, but {' and '.join(missing)} {are} not set")
    usual = Settings()
    if settings.oidc_issuer != usual.oidc_issuer and settings.oidc_keys_url == usual.oidc_keys_url:
        raise SettingsError(
            "CRONLEASE_OIDC_ISSUER is not Google, so CRONLEASE_OIDC_KEYS_URL must say where its keys are"
        )


def _unfit(name: str, value: timedelta, rule: str, other: str, bound: timedelta) -> SettingsError:
    return SettingsError(f"{name} is {written(value)}, but it must be {rule} {other}, {written(bound)}")
