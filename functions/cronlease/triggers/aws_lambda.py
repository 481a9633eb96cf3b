"""`cronlease.aws_lambda()`: a function as the handler of AWS Lambda, hit by EventBridge Scheduler, by EventBridge's
rules or by hand. No SDK: the runtime calls the handler with plain values.

The process is frozen between two invocations, and its connections die meanwhile: each invocation opens its own.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

from cronlease import arguments, registry
from cronlease.job import Hit, Job
from cronlease.observe import logs
from cronlease.outcome import Outcome, RunFailed, SkipReason
from cronlease.process import loop, spawn_guard
from cronlease.run.attempt import skip_unasked
from cronlease.run.execution import run_once
from cronlease.settings import Settings, load
from cronlease.triggers.database import database_url, opened

# Reserved for writing the job's end: a quarter of the time that the invocation has left, within these bounds.
_LEAST_SECONDS, _MOST_SECONDS = 0.5, 10.0
_INPUT = ("args", "force", "schedule_arn", "scheduled_time")
_TIMED = "Scheduled Event"


def aws_lambda(function: Callable[..., Any]) -> Callable[[Any, Any], dict[str, Any]]:
    """The handler of a `@scheduled` function: `handler = cronlease.aws_lambda(refresh_prices)`.

    A run ends in time for its invocation. A skip and a success answer the outcome; a run that did not end well raises
    RunFailed, so that retries, alarms and dead-letter queues see it. EventBridge Scheduler's input, all optional:
    {"schedule_arn": "<aws.scheduler.schedule-arn>", "scheduled_time": "<aws.scheduler.scheduled-time>", "args": {}}.
    """
    job: Job | None = getattr(function, "job", None)
    if job is None:
        raise TypeError("cronlease.aws_lambda() takes a function that @scheduled has decorated")
    settings = load()

    def handler(event: Any, context: Any) -> dict[str, Any]:
        logs.configure(settings.log_level)
        hit = _hit(event)
        if spawn_guard.is_spawned():
            return skip_unasked(job.name, uuid4(), SkipReason.SPAWNED).as_json()
        left = _left(context)
        outcome = loop.run(_run(_bounded(job, left), hit, settings))
        if outcome.failed is not None:
            raise RunFailed(outcome)
        return outcome.as_json()

    return handler


def _left(context: Any) -> timedelta:
    if not hasattr(context, "get_remaining_time_in_millis"):
        raise TypeError(
            f"the context is {context!r}: pass Lambda's, or in a test an object with get_remaining_time_in_millis()"
        )
    return timedelta(milliseconds=context.get_remaining_time_in_millis())


async def _run(job: Job, hit: Hit, settings: Settings) -> Outcome:
    async with opened(database_url(settings), settings) as database:
        return await run_once(job, hit, database, settings, jobs={**registry.jobs(), job.name: job})


def _bounded(job: Job, left: timedelta) -> Job:
    """The job with its limits fitted into what is left of the invocation."""
    spare = timedelta(seconds=min(max(left.total_seconds() / 4, _LEAST_SECONDS), _MOST_SECONDS))
    max_run = max(min(job.limits.max_run, left - spare), timedelta(milliseconds=1))
    acquire = min(job.limits.acquire, max_run / 2)
    return job._replace(limits=job.limits._replace(max_run=max_run, acquire=acquire))


def _hit(event: Any) -> Hit:
    """Raises ValueError, one sentence: the invocation fails, and whoever configured the input sees why."""
    if event is None or event == {}:
        return Hit()
    if not isinstance(event, dict):
        raise ValueError(f"the event is not an object: send {{}} or one with {', '.join(_INPUT)}")
    if "detail-type" in event:
        return _of_rule(event)
    if unknown := [name for name in event if name not in _INPUT]:
        raise ValueError(f"{unknown[0]!r} is not a field of the input: the fields are {', '.join(_INPUT)}")
    force, args = event.get("force", False), _args(event.get("args"))
    if not isinstance(force, bool):
        raise ValueError("force is true or false")
    slot, arn = _text(event.get("scheduled_time")), _text(event.get("schedule_arn"))
    if slot is None:
        return Hit(job_name=arn, force=force, args=args)
    # Without its ARN the slot alone names the delivery: a function usually has one schedule.
    return Hit.of_slot("eventbridge", arn or "eventbridge", slot, force=force, args=args)


def _of_rule(event: dict[str, Any]) -> Hit:
    """An event of a rule, or the one that EventBridge Scheduler sends where no input is set."""
    resources = event.get("resources")
    rule = _text(resources[0]) if isinstance(resources, list) and resources else None
    time, event_id = _text(event.get("time")), _text(event.get("id"))
    detail = event.get("detail")
    args = _args(detail) if isinstance(detail, dict) else {}
    if event["detail-type"] == _TIMED and (hit := Hit.of_slot("eventbridge", rule, time, args=args)).delivery:
        return hit
    return Hit("eventbridge", rule, args=args, delivery=event_id)


def _args(given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ValueError("args must be an object")
    arguments.encode(given)
    return given


def _text(given: Any) -> str | None:
    return given if isinstance(given, str) and given else None
