"""Which jobs the local scheduler has, and the settings of the function that fit them. Reads files, starts nothing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from cronlease.cadence import duration, written
from cronlease.emulator.retry import NO_RETRY, Retry
from cronlease.process.emulated import CAPPED, EMULATED, faster, faster_cadence, faster_lease
from cronlease.settings import Settings
from cronlease.slots import Coming, Cron, Steady

# What Cloud Scheduler accepts, in seconds.
SHORTEST_DEADLINE, LONGEST_DEADLINE = 15.0, 1800.0
ATTEMPT_DEADLINE = 180.0
# Scaled down so that a success, not_due and locked are all seen within half a minute.
_DEMO = {"CRONLEASE_EVERY": "6s..9s", "CRONLEASE_BACKOFF": "8s..12s", "CRONLEASE_LEASE": "20s"}
# And so that a lease can run out several times in that.
_CHAOS = {"CRONLEASE_EVERY": "2s..3s", "CRONLEASE_BACKOFF": "2s..4s", "CRONLEASE_LEASE": "3s"}


@dataclass(frozen=True, slots=True)
class TimedJob:
    """One job of the scheduler. Durations are seconds of the scheduler's time."""

    name: str
    when: Cron | timedelta
    path: str = "/"
    attempt_deadline: float = ATTEMPT_DEADLINE
    retry: Retry = NO_RETRY

    def slots(self, now: datetime) -> Coming:
        return Steady(now, self.when) if isinstance(self.when, timedelta) else self.when


class Plan(NamedTuple):
    """The jobs, the defaults of the function's environment, and how much faster than ours the time is."""

    jobs: list[TimedJob]
    environment: dict[str, str]
    speed: float = 1.0
    # When the scheduler's time begins, if not now, and how long it is asleep after the first slots.
    first: datetime | None = None
    asleep: timedelta | None = None


def demo(target: str, every: timedelta, attempt_deadline: float, retry: Retry, *, chaos: bool) -> Plan:
    """One job that is hit every so often, whether or not the hit before was answered."""
    job = TimedJob(_name(target), every, attempt_deadline=_deadline(attempt_deadline), retry=retry)
    return Plan([job], {**(_CHAOS if chaos else _DEMO), EMULATED: CAPPED})


def scheduled(target: str, cron: Cron, attempt_deadline: float, retry: Retry, speed: float) -> Plan:
    """One job with a cron expression."""
    job = TimedJob(_name(target), cron, attempt_deadline=_deadline(attempt_deadline), retry=retry)
    return Plan([job], _environment({}, speed), speed)


def from_file(path: Path, target: str, speed: float) -> Plan:
    """The jobs that hit this function, as a jobs.json writes them. Raises ValueError, one sentence."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict):
            raise ValueError("it is no JSON object; deploy/jobs.schema.json says what there is to say")
        ours = {name: job for name, job in document["jobs"].items() if job["function"] == target}
        function = document["functions"].get(target, {})
        jobs = [_job(name, given) for name, given in ours.items()]
        environment = _environment(function, speed)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON, line {error.lineno}, column {error.colno}: {error.msg}") from None
    except KeyError as error:
        raise ValueError(f"{path}: {error} is missing; deploy/jobs.schema.json says what there is to say") from None
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
    """The function's time runs as fast as the scheduler's, or nothing would fit anything."""
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
        raise ValueError(f"an attempt deadline of {seconds:g}s is none that Cloud Scheduler has: from 15s to 30m")
    return seconds


def _seconds(text: str) -> float:
    return duration(text).total_seconds()


def _name(target: str) -> str:
    return target.replace("_", "-")
