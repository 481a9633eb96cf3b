"""Whether the promises were kept: compares the answers that callers got with the history in the database."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import psycopg

from cronlease.db.queries import load_queries
from cronlease.emulator.extensions import Extension
from cronlease.emulator.function import EmulatorError
from cronlease.emulator.scheduler import Hit
from cronlease.emulator.uncounted_slots import SlotRun, uncounted_slots

_QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
_MOST_SHOWN = 20
# A single run cannot break a promise about another; from three on, one has a predecessor and a successor.
_ENOUGH_RUNS = 3
# What to say when most hits were skipped for that reason.
_SKIPPED_BECAUSE = {
    "not_due": "most hits came before it was due: give it longer with --for, or a shorter cadence",
    "locked": "most hits came while a run held the lease: give it longer with --for, or a shorter lease",
    "paused": "it is paused: `cronlease schedule resume` lets it run",
    "completed": "it runs only once, and that run is over",
    "schedule_read_error": "the schedule could not be read: the log of the function says why",
}
_KEEPS_TIMES = "; a function keeps its times in a configured database, without one the emulator shortens them"


class Scope(NamedTuple):
    """The schedules that the hits can run: these functions and, by way of run-due, every row of these actions.
    Another emulator may run others in the same database."""

    functions: list[str]
    actions: list[str]

    def make_due(self, conninfo: str) -> None:
        """Makes schedules that nobody holds due, and has them planned anew: the plan of an earlier emulator causes no
        wait, and its cadence is not followed, as that of a newer revision would be."""
        _ask(conninfo, _QUERIES["make_due"], {"functions": self.functions})


class Before(NamedTuple):
    """Where the history stood when the hits began."""

    scope: Scope
    since: datetime
    run_counts: dict[str, int]

    @classmethod
    def read(cls, conninfo: str, scope: Scope) -> Self:
        ((since, run_counts),) = _ask(conninfo, _QUERIES["before"])
        return cls(scope, since, run_counts)

    def params(self) -> dict[str, Any]:
        """The parameters of every query about the history."""
        return {"since": self.since, **self.scope._asdict()}


class Ledger:
    """The answers that callers got: each hit counted once, and how each run ended by request ID."""

    def __init__(self) -> None:
        self.hits = 0
        self.unanswered = 0
        self.ran = 0
        self.refused: Counter[str] = Counter()
        self.skips: Counter[str] = Counter()
        self.outcomes: dict[str, str] = {}
        # Server errors that name no run: only the log says more.
        self.strange = 0

    def copied(self) -> "Ledger":
        """A snapshot for another thread."""
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
    """What happened, and every broken rule with what broke it."""

    hits: int
    ran: int
    unanswered: int
    errors: dict[str, int]
    skips: dict[str, int]
    runs: dict[str, int]
    faults: dict[str, int]
    violations: list[str]
    # How many of the runs had an answer that nobody got, and how many were started by others, by trigger.
    unheard: int = 0
    others: dict[str, int] = field(default_factory=dict)
    # Why the cadence does not fit how often the function was hit, and what would.
    cadence: str | None = None
    # Whether the times were not shortened because the database is a configured one.
    keeps_times: bool = False

    @property
    def too_few(self) -> str | None:
        """Why these runs prove nothing, and what to do; None when they prove something."""
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
            slow = self.keeps_times and reason in ("not_due", "locked")
            return f"{_SKIPPED_BECAUSE[reason]}{_KEEPS_TIMES if slow else ''}"
        if 2 * self.unanswered > self.hits:
            return "most hits had no answer: the log of the function may say why"
        return "give it longer with --for"

    def _whose(self) -> list[str]:
        """The runs that no answer mentioned, so that the numbers add up."""
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
        ]


def judge(
    conninfo: str,
    before: Before,
    ledger: Ledger,
    faults: Counter[str],
    stuck: list[str],
    extensions: Iterable[Extension] = (),
) -> Verdict:
    """Reads the history since `before`. `stuck` are schedules that hits could not free; extensions add their own
    rules. The verdict is final once nothing runs any more."""
    params = before.params() | {
        "run_counts": json.dumps(before.run_counts),
        "answers": json.dumps(ledger.outcomes),
    }
    broken = _ask(conninfo, _QUERIES["violations"], params)
    for each in extensions:
        broken += _ask(conninfo, each.violations(), {"since": before.since})
    violations = [f"{rule}: {what}" for rule, what in broken]
    slots = map(SlotRun._make, _ask(conninfo, _QUERIES["slots"], params))
    violations += [f"a slot was neither served nor counted: {what}" for what in uncounted_slots(slots)]
    violations += [f"a lease has expired, and no hit takes it over: {name}" for name in stuck]
    unheard = _ask(conninfo, _QUERIES["unheard"], params)
    return Verdict(
        hits=ledger.hits,
        ran=ledger.ran,
        unanswered=ledger.unanswered,
        errors=dict(ledger.refused.most_common()),
        skips=dict(ledger.skips.most_common()),
        runs=dict(_ask(conninfo, _QUERIES["history"], params)),
        faults=dict(faults.most_common()),
        violations=violations,
        unheard=sum(count for ours, _, count in unheard if ours),
        others={trigger: count for ours, trigger, count in unheard if not ours},
    )


def stale(conninfo: str, before: Before) -> list[str]:
    """Schedules that are due and whose lease has expired: a hit must take them over."""
    return [name for (name,) in _ask(conninfo, _QUERIES["stale"], before.params())]


def _ask(conninfo: str, query: str, params: dict[str, Any] | None = None) -> list[Any]:
    try:
        with psycopg.connect(conninfo, connect_timeout=10) as conn:
            return conn.execute(query.encode(), params).fetchall()
    except psycopg.Error as error:
        raise EmulatorError(f"the history cannot be read: {' '.join(str(error).split())}") from None


def _interrupted(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs that run-due interrupted: it lists them as skipped, with a request ID."""
    skipped = body.get("skipped")
    return [each for each in skipped if "request_id" in each] if isinstance(skipped, list) else []


def _sum(counts: dict[str, int]) -> str:
    """For example: 14 (success 11, abandoned 3)."""
    parts = ", ".join(f"{name} {count}" for name, count in counts.items())
    return f"{sum(counts.values())} ({parts})" if parts else "0"
