"""The answer to a hit: the JSON contract, with closed enums. Knows nothing of HTTP, databases or jobs."""

from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID


class SkipReason(StrEnum):
    """Why a hit did not run. A skip is not an error: it answers 200."""

    LOCKED = "locked"
    NOT_DUE = "not_due"
    SCHEDULE_READ_ERROR = "schedule_read_error"
    PAUSED = "paused"
    COMPLETED = "completed"
    DUPLICATE = "duplicate"
    BREAKER_OPEN = "breaker_open"
    SHUTTING_DOWN = "shutting_down"
    SPAWNED = "spawned"
    UNKNOWN_ACTION = "unknown_action"


class Status(StrEnum):
    """How a real run ended, as refresh_runs records it."""

    SUCCESS = "success"
    PARTIAL = "partial"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    ABANDONED = "abandoned"


class FailReason(StrEnum):
    """Why an answer is not ok. The value is the HTTP contract; http_status is its code."""

    FAILED = "failed"
    DEADLINE = "deadline"
    LEASE_LOST = "lease_lost"
    INTERRUPTED = "interrupted"
    COMMIT_UNKNOWN = "commit_unknown"

    @property
    def http_status(self) -> int:
        return {FailReason.LEASE_LOST: 409, FailReason.INTERRUPTED: 503}.get(self, 500)


class Counts(NamedTuple):
    """What a run did to its data; None until the job reports it."""

    fetched: int | None = None
    inserted: int | None = None
    updated: int | None = None
    unchanged: int | None = None
    closed: int | None = None


class Outcome(NamedTuple):
    """The end of one hit: a skip, a run, or a run that went wrong. `as_json` is the body."""

    function: str
    request_id: UUID
    skipped: SkipReason | None = None
    status: Status | None = None
    failed: FailReason | None = None
    error: str | None = None
    counts: Counts = Counts()
    locked_by: str | None = None
    locked_until: datetime | None = None
    next_run_at: datetime | None = None
    duration_ms: int = 0
    hint: str | None = None
    # The slot that the run served, how many slots before it were missed, and the first of those.
    slot: datetime | None = None
    missed: int = 0
    first_missed: datetime | None = None

    @property
    def http_status(self) -> int:
        return 200 if self.failed is None else self.failed.http_status

    def as_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "ok": self.failed is None,
            "skipped": self.skipped is not None,
            "reason": self.skipped or self.failed,
            "function": self.function,
            "request_id": str(self.request_id),
        }
        if self.skipped is SkipReason.LOCKED:
            if self.locked_until is not None:
                body["locked_until"] = _time(self.locked_until)
        elif self.skipped in (SkipReason.NOT_DUE, SkipReason.BREAKER_OPEN):
            body["next_run_at"] = _time(self.next_run_at)
        elif self.skipped is None:
            body["status"] = self.status
            if self.error is not None:
                body["error"] = self.error
            body |= self.counts._asdict()
            body["next_run_at"] = _time(self.next_run_at)
            body["duration_ms"] = self.duration_ms
            if self.slot is not None:
                body["slot"] = _time(self.slot)
            if self.missed:
                body |= {"missed": self.missed, "first_missed": _time(self.first_missed)}
        if self.hint is not None:
            body["hint"] = self.hint
        return body


class Skipped(Exception):
    """A block or a command that did not run: `reason` says why, `outcome` has the rest."""

    def __init__(self, outcome: Outcome) -> None:
        assert outcome.skipped is not None, "a run is not a skip"
        hint = f": {outcome.hint}" if outcome.hint else ""
        super().__init__(f"{outcome.function} was skipped, {outcome.skipped.value}{hint}")
        self.outcome = outcome
        self.reason = outcome.skipped


class RunFailed(Exception):
    """A run that did not end well, for a caller in Python: `outcome` says how."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"{outcome.function}: {outcome.failed}, {outcome.error}")
        self.outcome = outcome


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
