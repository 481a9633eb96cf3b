"""The jobs of the local scheduler, and the settings of the function that fit them. Reads files, starts nothing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from cronlease.cadence import duration, written
from cronlease.process.emulated import CAPPED, EMULATED, faster, faster_cadence, faster_lease
from cronlease.settings import Settings
from cronlease.slots import Beat, Coming, Cron

# The limits of Cloud Scheduler, in seconds.
SHORTEST_DEADLINE, LONGEST_DEADLINE = 15.0, 1800.0
ATTEMPT_DEADLINE = 180.0
# Scaled down so that a success, not_due and locked are all seen within half a minute.
_DEMO = {"CRONLEASE_EVERY": "6s..9s", "CRONLEASE_BACKOFF": "8s..12s", "CRONLEASE_LEASE": "20s"}
# Shorter still, so that a lease can expire several times in that time.
_CHAOS = {"CRONLEASE_EVERY": "2s..3s", "CRONLEASE_BACKOFF": "2s..4s", "CRONLEASE_LEASE": "3s"}


@dataclass(frozen=True, slots=True)
class Retry:
    """A job's retry configuration, in seconds, with Cloud Scheduler's own defaults: no retry."""

    count: int = 0
    max_duration: float = 0.0
    min_backoff: float = 5.0
    max_backoff: float = 3600.0
    max_doublings: int = 5

    def again(self, retries: int, elapsed: float) -> bool:
        """Whether another retry follows after this many, this long after the first attempt: until both limits are
        reached. A duration of 0 sets no limit; then the count alone decides."""
        return retries < self.count or elapsed < self.max_duration

    def backoff(self, retry: int) -> float:
        """How long to wait before that retry, the first being 1. The wait doubles `max_doublings` times, then grows
        by the same amount each time, up to `max_backoff`."""
        doublings = min(retry - 1, self.max_doublings)
        grown: float = self.min_backoff * 2**doublings
        return min(grown * (retry - doublings), self.max_backoff)


NO_RETRY = Retry()


@dataclass(frozen=True, slots=True)
class TimedJob:
    """One job of the scheduler. Durations are seconds of the scheduler's time."""

    name: str
    when: Cron | timedelta
    path: str = "/"
    attempt_deadline: float = ATTEMPT_DEADLINE
    retry: Retry = NO_RETRY

    def slots(self, now: datetime) -> Coming:
        return Beat(now, self.when) if isinstance(self.when, timedelta) else self.when


class Plan(NamedTuple):
    """The jobs, the defaults of the function's environment, and how much faster than real time the scheduler runs."""

    jobs: list[TimedJob]
    environment: dict[str, str]
    speed: float = 1.0
    # When the scheduler's time begins, if not now, and how long it sleeps after the first slots.
    first: datetime | None = None
    asleep: timedelta | None = None


def demo(target: str, every: timedelta, attempt_deadline: float, retry: Retry, *, chaos: bool) -> Plan:
    """One job that hits at a steady interval, whether or not the previous hit was answered."""
    job = TimedJob(_name(target), every, attempt_deadline=_deadline(attempt_deadline), retry=retry)
    return Plan([job], {**(_CHAOS if chaos else _DEMO), EMULATED: CAPPED})


def scheduled(target: str, cron: Cron, attempt_deadline: float, retry: Retry, speed: float) -> Plan:
    """One job with a cron expression."""
    job = TimedJob(_name(target), cron, attempt_deadline=_deadline(attempt_deadline), retry=retry)
    return Plan([job], _environment({}, speed), speed)


def from_file(path: Path, target: str, speed: float) -> Plan:
    """The jobs of a jobs.json that hit this function. Raises ValueError with one sentence."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict):
            raise ValueError("it is not a JSON object; deploy/jobs.schema.json describes it")
        ours = {name: job for name, job in document["jobs"].items() if job["function"] == target}
        function = document["functions"].get(target, {})
        jobs = [_job(name, given) for name, given in ours.items()]
        environment = _environment(function, speed)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON, line {error.lineno}, column {error.colno}: {error.msg}") from None
    except KeyError as error:
        raise ValueError(f"{path}: {error} is missing; deploy/jobs.schema.json describes the file") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: {error}") from None
    if not jobs:
        others = ", ".join(sorted({job["function"] for job in document["jobs"].values()})) or "nobody"
        raise ValueError(f'{path} has no job for the function "{target}": it has jobs for {others}')
    return Plan(jobs, environment, speed)


def _job(name: str, given: Mapping[str, Any]) -> TimedJob:
    retry = given["retry"]
    return TimedJob(
        name,
        Cron.parse(given["schedule"], given["time_zone"]),
        given["path"],
        _deadline(_seconds(given["attempt_deadline"])),
        Retry(
            count=int(retry["count"]),
            max_duration=_seconds(retry["max_duration"]),
            min_backoff=_seconds(retry["min_backoff"]),
            max_backoff=_seconds(retry["max_backoff"]),
            max_doublings=int(retry["max_doublings"]),
        ),
    )


def _environment(function: Mapping[str, str], speed: float) -> dict[str, str]:
    """Settings that make the function's time run as fast as the scheduler's."""
    usual = Settings()
    lease = duration(function["lease"]) if "lease" in function else usual.lease
    made = {
        "CRONLEASE_LEASE": written(faster_lease(lease, speed)),
        "CRONLEASE_EVERY": str(faster_cadence(usual.every, speed)),
    }
    if speed != 1:
        made["CRONLEASE_BACKOFF"] = str(faster(usual.backoff, speed))
        made[EMULATED] = f"{speed:g}"
    if "max_run" in function:
        made["CRONLEASE_MAX_RUN"] = written(faster_lease(duration(function["max_run"]), speed))
    return made


def _deadline(seconds: float) -> float:
    if not SHORTEST_DEADLINE <= seconds <= LONGEST_DEADLINE:
        raise ValueError(f"an attempt deadline of {seconds:g}s is refused by Cloud Scheduler: write 15s to 30m")
    return seconds


def _seconds(text: str) -> float:
    return duration(text).total_seconds()


def _name(target: str) -> str:
    return target.replace("_", "-")
