"""What an upgrade or a rollback must leave as it is, read from the database, and what it may answer and log."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.integration.conftest import Room

# The columns of version 0.1: later ones are added by a migration.
RUN = (
    "request_id, function_name, action, args, fence, trigger, parent_request_id, started_at, finished_at, status,"
    " error, fetched, inserted, updated, unchanged, closed, next_run_at"
)
CHECKS = {
    "fences that do not rise": (
        "select function_name, fence from (select *, lead(fence) over w as following from refresh_runs"
        " window w as (partition by function_name order by started_at)) r where following <= fence"
    ),
    "runs above their schedule's fence": (
        "select function_name, r.fence from refresh_runs r join refresh_schedule s using (function_name)"
        " where r.fence > s.fence"
    ),
    "runs that began before the one before had ended": (
        "select function_name, fence from (select *, lead(started_at) over w as following from refresh_runs"
        " window w as (partition by function_name order by fence)) r where finished_at > following"
    ),
    "runs that began before they were due": (
        "select function_name, fence from (select *, lag(next_run_at) over w as due_at from refresh_runs"
        " window w as (partition by function_name order by fence)) r where started_at < due_at"
    ),
    "rows of runs that did not succeed": (
        "select name, version, status from effect left join refresh_runs using (request_id)"
        " where status is null or status not in ('success', 'partial')"
    ),
    "successes without their row": (
        "select function_name, request_id from refresh_runs left join effect e using (request_id)"
        " where status in ('success', 'partial') and e.request_id is null"
        " and action not in ('bare', 'refresh_opening_signals')"
    ),
    "one-shots that did not succeed exactly once": (
        "select function_name, completed_at, count(r.*) from refresh_schedule s left join refresh_runs r"
        " using (function_name) where s.once and coalesce(r.status, 'success') = 'success'"
        " group by 1, 2 having completed_at is null or count(r.*) <> 1"
    ),
    "runs that failed, and were not told to": (
        "select function_name, status, error from refresh_runs"
        " where status not in ('success', 'partial', 'interrupted')"
        " and not (function_name = 'fails' and status = 'failed' and error = 'ValueError: as told')"
    ),
    "schedules that stay locked": (
        "select function_name, locked_by from refresh_schedule"
        " where locked_by is not null or locked_until is not null"
    ),
    "schedules that do not run any more": (
        "select function_name, next_run_at, paused_at, breaker_until from refresh_schedule"
        " where not once and (next_run_at > clock_timestamp() + interval '30 s' or paused_at is not null"
        " or breaker_until is not null)"
    ),
}
# One for each check, and what it must find. The first two are about what a snapshot remembers.
BREAKS = {
    "runs that are gone or changed": "update refresh_runs set error = 'x' where function_name = 'fails'",
    "openings that are gone or first seen anew": "delete from opening_signals",
    "fences that do not rise": "update refresh_runs set fence = 1 where function_name = 'tick'",
    "runs above their schedule's fence": "update refresh_schedule set fence = 1 where function_name = 'linger'",
    "runs that began before the one before had ended": (
        "update refresh_runs set finished_at = finished_at + interval '1 h' where function_name = 'row 1'"
    ),
    "runs that began before they were due": (
        "update refresh_runs set next_run_at = next_run_at + interval '1 h' where function_name = 'row 2'"
    ),
    "rows of runs that did not succeed": "insert into effect values ('tick', gen_random_uuid(), 'this')",
    "successes without their row": "delete from effect where name = 'linger'",
    "one-shots that did not succeed exactly once": (
        "update refresh_schedule set completed_at = null where function_name = 'shot 1 0'"
    ),
    "runs that failed, and were not told to": (
        "update refresh_runs set status = 'abandoned' where function_name = 'shot 1 2'"
    ),
    "schedules that stay locked": (
        "update refresh_schedule set locked_by = 'x', locked_until = 'infinity' where function_name = 'tick'"
    ),
    "schedules that do not run any more": (
        "update refresh_schedule set paused_at = clock_timestamp() where function_name = 'row 1'"
    ),
    "bodies without a run, or runs without a body": "delete from refresh_runs where action = 'bare'",
}


class Snapshot(NamedTuple):
    """The runs that have ended, when each opening was first seen, and the fences."""

    runs: dict[str, Any]
    openings: dict[str, Any]
    fences: dict[str, int]

    @classmethod
    def of(cls, room: Room) -> "Snapshot":
        runs = f"select request_id, row_to_json(r) from (select {RUN} from refresh_runs) r where status <> 'running'"
        seen = "select (source, external_id)::text, first_seen_at from opening_signals"
        fences = "select function_name, fence from refresh_schedule"
        return cls(dict(room.query(runs)), dict(room.query(seen)), dict(room.query(fences)))

    def violated_by(self, later: "Snapshot") -> dict[str, list[Any]]:
        return {
            "runs that are gone or changed": [row for key, row in self.runs.items() if later.runs.get(key) != row],
            "openings that are gone or first seen anew": [
                key for key, at in self.openings.items() if later.openings.get(key) != at
            ],
            "fences that fell": [name for name, fence in self.fences.items() if later.fences.get(name, 0) < fence],
        }


def violations(room: Room, snapshots: Sequence[Snapshot], bodies: Sequence[str]) -> dict[str, list[Any]]:
    """What is wrong, with the rows. Bodies: a line for each start of the action that has no transaction."""
    found = {what: room.query(text) for what, text in CHECKS.items()}
    last = Snapshot.of(room)
    for snapshot in snapshots:
        found |= {what: rows for what, rows in snapshot.violated_by(last).items() if rows}
    successes = room.query("select request_id::text from refresh_runs where action = 'bare' and status = 'success'")
    begun = [line.split(" ")[-2] for line in bodies]
    if sorted(begun) != sorted(key for (key,) in successes):
        found["bodies without a run, or runs without a body"] = sorted({*begun} ^ {key for (key,) in successes})
    return {what: rows for what, rows in found.items() if rows}


def judged(path: str, status: int, answer: dict[str, Any], *, stopping: bool) -> tuple[str, bool]:
    """The answer in a few words, and whether it is one that may be given here."""
    if path == "/run-due" and status in (200, 500):
        reason, failed = answer["reason"], {each["function"] for each in answer["failed"]}
        documented = failed <= {"fails"} and (reason is None or (stopping and reason == "shutting_down"))
        return f"run-due {status} {reason or ''}".strip(), documented
    word = answer.get("reason") or answer.get("status")
    if status == 200:
        return f"200 {word}", word in ("locked", "not_due", "success", "partial") or (
            stopping and word == "shutting_down"
        )
    # A process that ends no longer answers, or says so.
    return f"{status} {word}", stopping and (status == 0 or (status, word) == (503, "interrupted"))


def is_unexpected(line: str) -> bool:
    """Whether it is an error, except for the function that fails, or no line of ours."""
    if not line.startswith("{"):
        return "[INFO]" not in line
    fields = json.loads(line)
    return fields["severity"] in ("ERROR", "CRITICAL") and fields.get("function") != "fails"
