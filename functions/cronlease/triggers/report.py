"""What one run-due did, as the answer to it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from cronlease.db.functions import Due
from cronlease.outcome import FailReason, Outcome, SkipReason
from cronlease.process import spawn_guard


class Report(NamedTuple):
    """What one run-due did. The reason is set if it could not start, or could not go on to the end."""

    ran: tuple[Outcome, ...] = ()
    failed: tuple[Outcome, ...] = ()
    interrupted: tuple[Outcome, ...] = ()
    due: Due | None = None
    reason: SkipReason | None = None

    @property
    def http_status(self) -> int:
        """A failed run answers 500 here, too: the platform's alerting must see it."""
        return 500 if self.failed else 200

    def as_json(self) -> dict[str, Any]:
        unknown = self.due.unknown_names if self.due else []
        body: dict[str, Any] = {
            "ok": not self.failed,
            "ran": [_brief(outcome) for outcome in self.ran],
            "skipped": [
                *(_brief(outcome) for outcome in self.interrupted),
                *({"function": name, "reason": SkipReason.UNKNOWN_ACTION} for name in unknown),
            ],
            "failed": [_brief(outcome) for outcome in self.failed],
            "remaining": self.due.due if self.due else None,
            "reason": self.reason,
        }
        if self.due and self.due.unknown > len(unknown):
            body["unknown_actions"] = self.due.unknown
        if self.reason is SkipReason.SPAWNED:
            body["hint"] = spawn_guard.HINT
        return body


def _brief(outcome: Outcome) -> dict[str, Any]:
    kept = ("function", "request_id", "status", "reason", "error", "next_run_at", "duration_ms")
    return {name: value for name, value in outcome.as_json().items() if name in kept and value is not None}


class Tally:
    """The outcomes of one run-due, sorted as they come."""

    def __init__(self, on_outcome: Callable[[Outcome], None]) -> None:
        self.names: set[str] = set()
        self.repeats = False
        self._on_outcome = on_outcome
        self._ran: list[Outcome] = []
        self._failed: list[Outcome] = []
        self._interrupted: list[Outcome] = []

    def record(self, outcome: Outcome) -> None:
        if outcome.failed is None:
            self._ran.append(outcome)
        else:
            (self._interrupted if outcome.failed is FailReason.INTERRUPTED else self._failed).append(outcome)
        self._on_outcome(outcome)
        self.repeats |= outcome.function in self.names
        self.names.add(outcome.function)

    def report(self, *, due: Due | None = None, reason: SkipReason | None = None) -> Report:
        return Report(tuple(self._ran), tuple(self._failed), tuple(self._interrupted), due, reason)
