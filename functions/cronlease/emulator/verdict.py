"""Whether the promises were kept: what callers were told, held against the history in the database."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import psycopg

from cronlease.db.queries import load_queries
from cronlease.emulator.brought import Brought
from cronlease.emulator.function import EmulatorError
from cronlease.emulator.left_out import SlotRun, left_out
from cronlease.emulator.scheduler import Hit

_QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
_MOST_SHOWN = 20
# One run can break no promise about another; from so many on, each has had one before and one after it.
_ENOUGH_RUNS = 3
# What to do where most hits were skipped for that reason.
_SKIPPED_BECAUSE = {
    "not_due": "most hits came before it was due: give it longer with --for, or a shorter cadence",
    "locked": "most hits came while a run held the lease: give it longer with --for, or a shorter lease",
    "paused": "it is paused: `cronlease schedule resume` lets it run",
    "completed": "it was to run once, and has",
    "schedule_read_error": "the schedule could not be read: the log of the function says why",
}


class Scope(NamedTuple):
    """Which schedules the hits can run: these functions, and where they reach run-due every row of these actions.
    Another emulator may have others in the same database."""

    functions: list[str]
    actions: list[str]

    def make_due(self, conninfo: str) -> None:
        """Those that nobody holds: what an earlier emulator left is no reason to wait."""
        _ask(conninfo, "make_due", {"functions": self.functions})


class Before(NamedTuple):
    """Where the history stood when the hits began."""

    scope: Scope
    since: datetime
    run_counts: dict[str, int]

    @classmethod
    def read(cls, conninfo: str, scope: Scope) -> Self:
        ((since, run_counts),) = _ask(conninfo, "before")
        return cls(scope, since, run_counts)

    def params(self) -> dict[str, Any]:
        """What every query about the history is given."""
        return {"since": self.since, **self.scope._asdict()}


class Ledger:
    """What callers were told: each hit under one heading, and by request ID how each run ended."""

    def __init__(self) -> None:
        self.hits = 0
        self.unanswered = 0
        self.ran = 0
        self.refused: Counter[str] = Counter()
        self.skips: Counter[str] = Counter()
        self.outcomes: dict[str, str] = {}
        # Errors that tell of no run: only the log says more.
        self.strange = 0

    def copied(self) -> "Ledger":
        """As it is now, for whoever reads it in another thread."""
        copied = Ledger()
        for name, value in vars(self).items():
            setattr(copied, name, value.copy() if isinstance(value, dict) else value)
        return copied

    def enter(self, hit: Hit) -> None:
        self.hits += 1
        if hit.status is None:
            self.unanswered += 1
            return
        body, reason = hit.body, hit.body.get("reason")
        self.strange += hit.status >= 500 and not {"function", "ran"} & body.keys()
        of_run_due = isinstance(body.get("ran"), list)
        runs = [*body["ran"], *body.get("failed", []), *_interrupted(body)] if of_run_due else [body]
        if body.get("skipped") is not True:
            for run in runs:
                self._note_outcome(run)
        if not hit.succeeded:
            why = reason or ("failed" if of_run_due else "")
            self.refused[f"{hit.status} {why}".strip()] += 1
        elif body.get("skipped") is True or not runs:
            self.skips[str(reason or "nothing_due")] += 1
        else:
            self.ran += 1

    def _note_outcome(self, body: dict[str, Any]) -> None:
        if "request_id" in body:
            self.outcomes[str(body["request_id"])] = str(body.get("reason") or body.get("status"))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happened, and every rule that was broken, with what broke it."""

    hits: int
    ran: int
    unanswered: int
    errors: dict[str, int]
    skips: dict[str, int]
    runs: dict[str, int]
    faults: dict[str, int]
    violations: list[str]
    # Of the runs those whose answer nobody got, and those of other callers, by trigger.
    unheard: int = 0
    others: dict[str, int] = field(default_factory=dict)
    # Why the function's cadence does not fit how often it was hit, and what would.
    cadence: str | None = None

    @property
    def too_few(self) -> str | None:
        """Why these runs prove nothing, and what to do; None when they do."""
        total = sum(self.runs.values())
        if total and not self.runs.get("success", 0) + self.runs.get("partial", 0):
            what = f"none of {total} real runs succeeded" if total > 1 else "the only real run did not succeed"
            return f"{what}; their answers say why, and --setup FILE makes tables that they need"
        if total >= _ENOUGH_RUNS:
            return None
        what = f"only {total} real run{'s'[: total > 1]}" if total else "no real run"
        return f"{what}; {self._why_not_more()}"

    def _why_not_more(self) -> str:
        reason, count = max(self.skips.items(), key=lambda item: item[1], default=("", 0))
        if reason in _SKIPPED_BECAUSE and 2 * count > self.hits:
            return _SKIPPED_BECAUSE[reason]
        if 2 * self.unanswered > self.hits:
            return "most hits had no answer: the log of the function may say why"
        return "give it longer with --for"

    def _whose(self) -> list[str]:
        """Which runs the callers were not told of, so that the numbers can be added up."""
        if not self.unheard and not self.others:
            return []
        answered = sum(self.runs.values()) - self.unheard - sum(self.others.values())
        parts = [f"{answered} answered"]
        parts += [f"{self.unheard} whose answer nobody got"] if self.unheard else []
        parts += [f"{count} hit by somebody else ({trigger})" for trigger, count in self.others.items()]
        return [f"              {', '.join(parts)}"]

    def lines(self) -> list[str]:
        answers = [f"{self.ran} ran", f"{sum(self.skips.values())} skipped"]
        answers += [f"{count} answered {what}" for what, count in self.errors.items()]
        answers += [f"{self.unanswered} without an answer"] if self.unanswered else []
        shown = self.violations[:_MOST_SHOWN]
        more = len(self.violations) - len(shown)
        return [
            "verdict",
            f"  hits        {self.hits}: {', '.join(answers)}",
            f"  real runs   {_sum(self.runs)}",
            *self._whose(),
            f"  skips       {_sum(self.skips)}",
            f"  faults      {_sum(self.faults)}",
            f"  violations  {len(self.violations)}",
            *(f"    {violation}" for violation in shown),
            *([f"    and {more} more"] if more else []),
            *([f"  cadence     {self.cadence}"] if self.cadence else []),
            *([f"  this verdict proves nothing: {self.too_few}"] if self.too_few else []),
        ]


def judge(
    conninfo: str,
    before: Before,
    ledger: Ledger,
    faults: Counter[str],
    stuck: list[str],
    brought: Iterable[Brought] = (),
) -> Verdict:
    """Reads the history since then, when nothing runs any more. Stuck are schedules that hits could not free; what
    jobs bring has rules of its own."""
    params = before.params() | {
        "run_counts": json.dumps(before.run_counts),
        "told": json.dumps(ledger.outcomes),
    }
    broken = _ask(conninfo, "violations", params)
    for each in brought:
        broken += _ask_text(conninfo, each.violations(), {"since": before.since})
    violations = [f"{rule}: {what}" for rule, what in broken]
    slots = map(SlotRun._make, _ask(conninfo, "slots", params))
    violations += [f"a slot was left out without a count: {what}" for what in left_out(slots)]
    violations += [f"a lease has run out, and no hit takes it: {name}" for name in stuck]
    unheard = _ask(conninfo, "unheard", params)
    return Verdict(
        hits=ledger.hits,
        ran=ledger.ran,
        unanswered=ledger.unanswered,
        errors=dict(ledger.refused.most_common()),
        skips=dict(ledger.skips.most_common()),
        runs=dict(_ask(conninfo, "history", params)),
        faults=dict(faults.most_common()),
        violations=violations,
        unheard=sum(count for ours, _, count in unheard if ours),
        others={trigger: count for ours, trigger, count in unheard if not ours},
    )


def stale(conninfo: str, before: Before) -> list[str]:
    """Schedules whose lease has run out and that are due, so that a hit must take them."""
    return [name for (name,) in _ask(conninfo, "stale", before.params())]


def _ask(conninfo: str, statement: str, params: dict[str, Any] | None = None) -> list[Any]:
    return _ask_text(conninfo, _QUERIES[statement], params)


def _ask_text(conninfo: str, text: str, params: dict[str, Any] | None) -> list[Any]:
    try:
        with psycopg.connect(conninfo, connect_timeout=10) as conn:
            return conn.execute(text.encode(), params).fetchall()
    except psycopg.Error as error:
        raise EmulatorError(f"the history cannot be read: {' '.join(str(error).split())}") from None


def _interrupted(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs that run-due had to leave: they are among what it skipped, with a request ID."""
    skipped = body.get("skipped")
    return [each for each in skipped if "request_id" in each] if isinstance(skipped, list) else []


def _sum(counts: dict[str, int]) -> str:
    """Such as: 14 (success 11, abandoned 3)."""
    parts = ", ".join(f"{name} {count}" for name, count in counts.items())
    return f"{sum(counts.values())} ({parts})" if parts else "0"
