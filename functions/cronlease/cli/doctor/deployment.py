"""What the doctor says of a jobs.json: whether its times can be read, and its time limits fit each other."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cronlease.cadence import HIT, duration, written
from cronlease.cli.doctor.finding import Finding, broken, ok, warning
from cronlease.emulator.fit import misfit
from cronlease.emulator.jobs import LONGEST_DEADLINE, SHORTEST_DEADLINE
from cronlease.job import Job
from cronlease.settings import load
from cronlease.slots import Cron

_CHECK = "deployment"
# What Cloud Run accepts.
_LONGEST_REQUEST = timedelta(hours=1)
_DEADLINES = timedelta(seconds=SHORTEST_DEADLINE), timedelta(seconds=LONGEST_DEADLINE)


def check(path: Path, known: Mapping[str, Job] | None) -> Iterator[Finding]:
    """Known are the functions of the source, where one was given."""
    try:
        document = json.loads(path.read_text("utf-8"))
        found = [*_functions(document, known, path), *_jobs(document), *_cadences(document, known or {})]
    except OSError as error:
        yield broken(_CHECK, f"{path} cannot be read: {error.strerror}", "pass the path of a jobs.json with --jobs")
    except json.JSONDecodeError as error:
        said = f"{path} is not JSON, line {error.lineno}, column {error.colno}: {error.msg}"
        yield broken(_CHECK, said, "mend that line: nothing can be deployed from it before")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        fix = "write it as deploy/jobs.schema.json says"
        yield broken(_CHECK, f"{path} is not a definition of functions and jobs: {why}", fix)
    else:
        yield from found or [ok(_CHECK, f"the time limits in {path} fit each other")]


def _functions(document: dict[str, Any], known: Mapping[str, Job] | None, path: Path) -> Iterator[Finding]:
    for name, function in document["functions"].items():
        lease, max_run, timeout = (duration(function[field]) for field in ("lease", "max_run", "request_timeout"))
        said_by = "lease"
        if known is not None and name in known and known[name].limits.lease != load().lease:
            # The decorator's: it wins over what the environment is given from here.
            lease, said_by = known[name].limits.lease, "the lease of its decorator"
        if known is not None and name not in known:
            fix = f"declare it there, or take {name} out of {path}"
            yield broken(_CHECK, f"{name} is no function of the source", fix)
        if max_run >= timeout:
            said = f"{name}: max_run is {written(max_run)}, but the platform ends a request after {written(timeout)}"
            yield broken(_CHECK, said, "make max_run shorter than request_timeout: a run then says how it ended")
        if timeout > _LONGEST_REQUEST:
            said = f"{name}: request_timeout is {written(timeout)}, longer than the platform allows"
            yield broken(_CHECK, said, f"make it at most {written(_LONGEST_REQUEST)}")
        if lease > timeout:
            said = f"{name}: {said_by} is {written(lease)}, so a killed run blocks for longer than it could have run"
            yield warning(_CHECK, said, f"make the lease at most {written(timeout)}: a run that lives renews it")


def _cadences(document: dict[str, Any], known: Mapping[str, Job]) -> Iterator[Finding]:
    """How often each function is due, held against how often it is hit."""
    for name in document["functions"]:
        if name not in known:
            continue
        cadence, now = known[name].cadence, datetime.now(UTC)
        # Run-due leaves alone what its own trigger owns.
        paths = ("/", f"/{name}") if cadence.text == HIT else ("/", f"/{name}", "/run-due")
        hits = []
        for job in document["jobs"].values():
            if job["function"] == name and job.get("path", "/") in paths:
                # One that cannot be read is named elsewhere.
                with suppress(ValueError):
                    hits.append(Cron.parse(job["schedule"], job["time_zone"]))
        if cadence.text == HIT and not hits:
            said = f'{name}: it is every="hit", but no job hits it: run-due leaves it alone'
            yield broken(_CHECK, said, "add a job whose path is /, or give it another cadence")
        elif (unfit := misfit(cadence, hits, now, known[name].late)) is not None:
            yield warning(_CHECK, f"{name}: {unfit.said}", unfit.fix)


def _jobs(document: dict[str, Any]) -> Iterator[Finding]:
    for name, job in document["jobs"].items():
        try:
            Cron.parse(job["schedule"], job["time_zone"])
        except ValueError as error:
            said, _, fix = str(error).partition(": ")
            yield broken(_CHECK, f"{name}: {said}", fix)
        function = document["functions"].get(job["function"])
        if function is None:
            yield broken(_CHECK, f"{name}: there is no function {job['function']}", "name one of the functions")
            continue
        deadline, timeout = duration(job["attempt_deadline"]), duration(function["request_timeout"])
        if not _DEADLINES[0] <= deadline <= _DEADLINES[1]:
            said = f"{name}: attempt_deadline is {written(deadline)}, and the scheduler refuses that"
            yield broken(_CHECK, said, f"make it from {written(_DEADLINES[0])} to {written(_DEADLINES[1])}")
        if deadline < timeout:
            said = f"{name}: the scheduler gives up after {written(deadline)}, before the platform does"
            yield broken(_CHECK, said, f"make attempt_deadline at least request_timeout, {written(timeout)}")
