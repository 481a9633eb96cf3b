"""Checks that need no database: the variables, the time limits, and the jobs' own checks.

A job's own check is a module under the entry point group `cronlease.checks`. It has FUNCTION, the name of the job's
function, VARIABLES, the environment variables that it reads, and check(), which yields (whether something is broken,
a sentence, how to fix it): without a fix all is well.
"""

import difflib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from cronlease.cadence import written
from cronlease.cli.doctor.finding import BROKEN, OK, WARNING, Finding, broken, ok, warning
from cronlease.job import Job
from cronlease.process import spawn_guard
from cronlease.settings import PREFIX, Limits, Settings

CHECKS = "cronlease.checks"
# Field x is the variable CRONLEASE_X, except the first four and backoff_given, which no variable sets; the others are
# read where they are needed.
_OURS = {
    *(PREFIX + field.upper() for field in Settings._fields[4:] if field != "backoff_given"),
    spawn_guard.SPAWNED,
    *spawn_guard.HOLDER,
    "CRONLEASE_DATA_DIR",
    "CRONLEASE_DEBUG",
    "CRONLEASE_EMULATED",
    "CRONLEASE_EMULATOR_VERDICT",
    "CRONLEASE_TEST_DATABASE_URL",
}
# Kubernetes sets these for a service of our name.
_OF_KUBERNETES = re.compile(r"CRONLEASE\w*?_(SERVICE_(HOST|PORT)|PORT)(_|$)")


class Part(NamedTuple):
    """One job's own check; without a module, it could not be loaded."""

    name: str
    module: Any
    error: str | None = None


def parts() -> list[Part]:
    loaded = []
    for entry in entry_points(group=CHECKS):
        try:
            loaded.append(Part(entry.name, entry.load()))
        except (ImportError, AttributeError) as error:
            loaded.append(Part(entry.name, None, f"{entry.value} cannot be loaded: {error}"))
    return loaded


def variables(parts: list[Part], environ: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """A warning for each variable that nothing reads."""
    known = _OURS.union(*(part.module.VARIABLES for part in parts if part.module))
    strange = sorted(
        name
        for name in (os.environ if environ is None else environ)
        if name.startswith(PREFIX) and name not in known and not _OF_KUBERNETES.match(name)
    )
    for name in strange:
        near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
        fix = f"write {near[0]}" if near else "remove it, or look up its name in deploy/settings.md"
        yield warning("environment", f"{name} is set, but nothing reads it", fix)
    if not strange:
        yield ok("environment", f"every {PREFIX} variable that is set is also read")


def time_limits(settings: Settings, jobs: Mapping[str, Job] | None = None) -> Iterator[Finding]:
    """If the platform limits how long a request may take, a run must end before, and its lease not long after. Each
    function of a source may have a lease of its own."""
    by_limits: dict[Limits, list[str]] = {}
    for name, job in (jobs or {}).items():
        by_limits.setdefault(job.limits, []).append(name)
    for limits, names in by_limits.items() or [(settings.limits(), [])]:
        yield _fits(limits, f"{', '.join(names)}: " if names else "")


def _fits(limits: Limits, whose: str) -> Finding:
    sentence = f"{whose}lease {written(limits.lease)}, a run is ended after {written(limits.max_run)}"
    platform = os.environ.get("CLOUD_RUN_TIMEOUT_SECONDS", "")
    if not platform.isdecimal() or int(platform) == 0:
        return ok("time limits", sentence)
    timeout = timedelta(seconds=int(platform))
    if limits.max_run > timeout:
        fix = f"set CRONLEASE_MAX_RUN to less than {written(timeout)}, or raise the platform's timeout"
        return broken("time limits", f"{sentence}, but the platform ends a request after {written(timeout)}", fix)
    if limits.lease > timeout:
        where = "CRONLEASE_LEASE, or the decorator's lease," if whose else "CRONLEASE_LEASE"
        fix = f"set {where} to at most {written(timeout)}: a live run renews it"
        return warning("time limits", f"{sentence}: a killed run blocks longer than it could have run", fix)
    return ok("time limits", f"{sentence}, the platform's timeout is {written(timeout)}")


def own_checks(parts: list[Part], declared: Collection[str] | None, scheduled: Collection[str]) -> Iterator[Finding]:
    """The jobs' own checks: of jobs that the source declares or, without a source, of those that have a schedule or
    whose variables are set."""
    for part in parts:
        if part.module is None:
            yield warning(part.name, part.error or "", "install the package again, or remove it")
            continue
        is_set = any(os.environ.get(name) for name in part.module.VARIABLES)
        is_here = is_set or part.module.FUNCTION in scheduled
        if is_here if declared is None else part.module.FUNCTION in declared:
            for is_broken, sentence, fix in part.module.check():
                yield Finding(part.name, OK if fix is None else BROKEN if is_broken else WARNING, sentence, fix)
