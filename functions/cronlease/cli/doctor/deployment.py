"""Checks a jobs.json: whether its times can be read, and whether its time limits fit each other."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cronlease.cadence import HIT, duration, written
from cronlease.cli.doctor.finding import Finding, broken, ok, warning
from cronlease.emulator.cadence_fit import misfit
from cronlease.emulator.jobs import LONGEST_DEADLINE, SHORTEST_DEADLINE
from cronlease.job import Job
from cronlease.settings import load
from cronlease.slots import Cron

_CHECK = "deployment"
# What Cloud Run accepts.
_LONGEST_REQUEST = timedelta(hours=1)
_DEADLINES = timedelta(seconds=SHORTEST_DEADLINE), timedelta(seconds=LONGEST_DEADLINE)


def check(path: Path, known: Mapping[str, Job] | None) -> Iterator[Finding]:
    """`known` are the functions of the source, if one was given."""
    try:
        document = json.loads(path.read_text("utf-8"))
        findings = [*_functions(document, known, path), *_jobs(document), *_cadences(document, known or {})]
    except OSError as error:
        yield broken(_CHECK, f"{path} cannot be read: {error.strerror}", "pass the path of a jobs.json with --jobs")
    except json.JSONDecodeError as error:
        sentence = f"{path} is not JSON, line {error.lineno}, column {error.colno}: {error.msg}"
        yield broken(_CHECK, sentence, "correct that line: nothing can be deployed from the file before")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        fix = "write it as deploy/jobs.schema.json describes"
        yield broken(_CHECK, f"{path} is not a definition of functions and jobs: {why}", fix)
    else:
        yield from findings or [ok(_CHECK, f"the time limits in {path} fit each other")]


def _functions(document: dict[str, Any], known: Mapping[str, Job] | None, path: Path) -> Iterator[Finding]:
    for name, function in document["functions"].items():
        lease, max_run, timeout = (duration(function[field]) for field in ("lease", "max_run", "request_timeout"))
        set_by = "lease"
        if known is not None and name in known and known[name].limits.lease != load().lease:
            # The decorator wins over the environment, which is set from this file.
            lease, set_by = known[name].limits.lease, "its decorator's lease"
        if known is not None and name not in known:
            fix = f"declare it there, or take {name} out of {path}"
            yield broken(_CHECK, f"{name} is not a function of the source", fix)
        if max_run >= timeout:
            sentence = (
                f"{name}: max_run is {written(max_run)}, but the platform ends a request after {written(timeout)}"
            )
            yield broken(
                _CHECK, sentence, "make max_run shorter than request_timeout, so that a run can say how it ended"
            )
        if timeout > _LONGEST_REQUEST:
            sentence = f"{name}: request_timeout is {written(timeout)}, longer than the platform allows"
            yield broken(_CHECK, sentence, f"make it at most {written(_LONGEST_REQUEST)}")
        if lease > timeout:
            sentence = f"{name}: {set_by} is {written(lease)}, so a killed run blocks longer than it could have run"
            yield warning(_CHECK, sentence, f"make the lease at most {written(timeout)}: a live run renews it")


def _cadences(document: dict[str, Any], known: Mapping[str, Job]) -> Iterator[Finding]:
    """Compares how often each function is due with how often it is hit."""
    for name in document["functions"]:
        if name not in known:
            continue
        cadence, now = known[name].cadence, datetime.now(UTC)
        # run-due leaves a schedule alone that a trigger of its own owns.
        paths = ("/", f"/{name}") if cadence.text == HIT else ("/", f"/{name}", "/run-due")
        hits = []
        for job in document["jobs"].values():
            if job["function"] == name and job.get("path", "/") in paths:
                # _jobs names those that cannot be read.
                with suppress(ValueError):
                    hits.append(Cron.parse(job["schedule"], job["time_zone"]))
        if cadence.text == HIT and not hits:
            sentence = f'{name}: it has every="hit", but no job hits it, and run-due leaves it alone'
            yield broken(_CHECK, sentence, "add a job whose path is /, or give it another cadence")
        elif (unfit := misfit(cadence, hits, now, known[name].late)) is not None:
            yield warning(_CHECK, f"{name}: {unfit.problem}", unfit.fix)


def _jobs(document: dict[str, Any]) -> Iterator[Finding]:
    for name, job in document["jobs"].items():
        try:
            Cron.parse(job["schedule"], job["time_zone"])
        except ValueError as error:
            sentence, _, fix = str(error).partition(": ")
            yield broken(_CHECK, f"{name}: {sentence}", fix)
        function = document["functions"].get(job["function"])
        if function is None:
            yield broken(_CHECK, f"{name}: there is no function {job['function']}", "name one of the functions")
            continue
        deadline, timeout = duration(job["attempt_deadline"]), duration(function["request_timeout"])
        if not _DEADLINES[0] <= deadline <= _DEADLINES[1]:
            sentence = f"{name}: attempt_deadline is {written(deadline)}, which the scheduler refuses"
            yield broken(_CHECK, sentence, f"make it from {written(_DEADLINES[0])} to {written(_DEADLINES[1])}")
        if deadline < timeout:
            sentence = f"{name}: the scheduler gives up after {written(deadline)}, before the platform does"
            yield broken(_CHECK, sentence, f"make attempt_deadline at least request_timeout, {written(timeout)}")
