"""The answer to a hit that does not run: its reason, a hint, and one line in the log."""

import logging
from uuid import UUID

from cronlease.db.functions import Claim
from cronlease.observe import telemetry
from cronlease.observe.logs import log, logger
from cronlease.outcome import Outcome, SkipReason
from cronlease.process import spawn_guard
from cronlease.run.attempt import Attempt

_LEVELS = {
    SkipReason.NOT_DUE: logging.DEBUG,
    SkipReason.PAUSED: logging.WARNING,
    SkipReason.UNKNOWN_ACTION: logging.WARNING,
}
_HINTS = {
    SkipReason.NOT_DUE: 'send {"force": true} to run now',
    SkipReason.SPAWNED: spawn_guard.HINT,
    SkipReason.SHUTTING_DOWN: "this instance is ending: the next hit reaches another one",
    SkipReason.UNKNOWN_ACTION: "the row's action is no function of this deployment: deploy one that has it",
}


def skip_unasked(function: str, request_id: UUID, reason: SkipReason) -> Outcome:
    """A skip that needs no look at the schedule: what a run itself has started, or a process that is ending."""
    return telemetry.skipped(_skipped(function, request_id, Claim(False, reason, *[None] * 8)))


def skip(attempt: Attempt, claimed: Claim, action: str) -> Outcome:
    """The outcome of a hit that was not granted its claim."""
    who = attempt.function, attempt.request_id
    with telemetry.hit(*who, attempt.trigger, attempt.asked_at, claimed, action) as span:
        return span.ends(_skipped(*who, claimed))


def _skipped(function: str, request_id: UUID, claimed: Claim) -> Outcome:
    reason = SkipReason(claimed.reason or SkipReason.SCHEDULE_READ_ERROR)
    level = _LEVELS.get(reason, logging.INFO)
    if reason is not SkipReason.SCHEDULE_READ_ERROR and logger.isEnabledFor(level):
        who = {"locked_by": claimed.locked_by, "locked_until": claimed.locked_until}
        log(
            level,
            f"Skipped {function}: {reason.value}",
            action="run_skipped",
            reason=reason.value,
            function=function,
            request_id=str(request_id),
            **(who if reason is SkipReason.LOCKED else {}),
        )
    return Outcome(
        function,
        request_id,
        skipped=reason,
        locked_until=claimed.locked_until,
        next_run_at=claimed.next_run_at,
        hint=_HINTS.get(reason),
    )
