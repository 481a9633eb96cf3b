"""The emulator's verdict: it reports no violation for a history as promised, and each one for any other."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import click
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from cronlease.cli.table import lines
from cronlease.emulator.extensions import extensions_for
from cronlease.emulator.external_database import Refused, notice
from cronlease.emulator.scheduler import Hit
from cronlease.emulator.show import Screen, rows_in_the_database
from cronlease.emulator.verdict import Before, Ledger, Scope, Verdict, judge, stale
from cronlease.process.emulated import EMULATED
from tests.schema.calls import acquire, call, finish

JOB = "refresh_opening_signals"
EXTENSIONS = extensions_for([JOB])


class History:
    """A short one of the shipped job: a success with an opening, a run that died, a run that took over from it."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.ledger = Ledger()
        with psycopg.connect(dsn, autocommit=True) as conn:
            call(conn, "ensure_schedule", function_name=JOB)
            self._run(conn, "success", opening="from before", tell=False)
        self.before = Before.read(dsn, Scope([JOB], []))
        with psycopg.connect(dsn, autocommit=True) as conn:
            self.first = self._run(conn, "success", opening="1")
            acquire(conn, uuid4(), JOB, force=True)
            conn.execute("update refresh_schedule set locked_until = clock_timestamp()")
            self.last = self._run(conn, "partial", opening="2")
            self.failed = self._run(conn, "failed")

    def _run(self, conn: psycopg.Connection, status: str, *, opening: str = "", tell: bool = True) -> UUID:
        request_id = uuid4()
        fence = acquire(conn, request_id, JOB, force=True).fence
        with conn.transaction():
            if opening:
                conn.execute("insert into opening_signals (source, external_id) values ('acme', %s)", [opening])
            finish(conn, request_id, fence, status, JOB, delay="10 min", inserted=int(bool(opening)))
        if tell:
            self.tell(request_id, status)
        return request_id

    def tell(self, request_id: UUID, word: str) -> None:
        ok = word in ("success", "partial")
        body = {"request_id": str(request_id), "skipped": False, "reason": None if ok else word, "status": word}
        self.ledger.enter(Hit(1, datetime.now(UTC), 0.1, 200 if ok else 500, body))

    def change(self, statement: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            changed = conn.execute(statement.encode(), vars(self))
            assert changed.rowcount > 0

    def judge(self) -> Verdict:
        return judge(self.dsn, self.before, self.ledger, Counter(kill=2), [], EXTENSIONS)


@pytest.fixture
def history(dsn: str) -> History:
    return History(dsn)


def test_a_history_as_promised_breaks_no_rule_and_is_counted(history: History) -> None:
    run_due: dict[str, Any] = {"ran": [], "skipped": [], "failed": [], "reason": None}
    unknown, interrupted = {"function": "a", "reason": "unknown_action"}, {"request_id": str(uuid4()), "reason": "x"}
    for status, body in (
        (200, {"skipped": True, "reason": "locked"}),
        (200, {**run_due, "reason": "shutting_down"}),
        (200, {**run_due, "skipped": [unknown]}),
        (200, {**run_due, "skipped": [interrupted]}),
        (500, {**run_due, "failed": [{"request_id": str(uuid4()), "reason": "failed"}]}),
    ):
        history.ledger.enter(Hit(2, datetime.now(UTC), 0.1, status, body))
    history.ledger.enter(Hit(3, datetime.now(UTC), 0.1, error="gone"))
    assert history.judge().lines() == [
        "verdict",
        "  hits        9: 3 ran, 3 skipped, 2 answered 500 failed, 1 without an answer",
        "  real runs   4 (abandoned 1, failed 1, partial 1, success 1)",
        "              3 answered, 1 hit by somebody else (manual)",
        "  skips       3 (locked 1, shutting_down 1, nothing_due 1)",
        "  faults      2 (kill 2)",
        "  violations  0",
    ]


def test_what_others_run_in_the_same_database_is_neither_counted_nor_judged(history: History) -> None:
    with psycopg.connect(history.dsn, autocommit=True) as conn:
        call(conn, "ensure_schedule", function_name="other", action="theirs")
        acquire(conn, uuid4(), "other", force=True)
        conn.execute(
            "update refresh_schedule set run_count = 7, locked_until = clock_timestamp() where action = 'theirs'"
        )
        ours = history.judge()
        assert (sum(ours.runs.values()), ours.violations) == (4, [])
        assert stale(history.dsn, history.before) == []
    # Where run-due is hit, every row of an action is ours.
    theirs = history.before._replace(scope=Scope([JOB], ["theirs"]))
    both = judge(history.dsn, theirs, history.ledger, Counter(), stale(history.dsn, theirs))
    assert sum(both.runs.values()) == 5
    assert [violation.partition(": other")[0] for violation in both.violations] == [
        "a run did not advance the schedule exactly once",
        "a lease has expired, and no hit takes it over",
    ]


def test_a_verdict_over_no_run_says_that_it_proves_nothing_where_it_must(dsn: str) -> None:
    verdict = judge(dsn, Before.read(dsn, Scope([JOB], [])), Ledger(), Counter(), [])
    said: list[str] = []
    screen = Screen(said.append, lines)
    screen.verdict(verdict, must_prove=True)
    screen.verdict(verdict)
    failure = "  this verdict proves nothing: no real run; give it longer with --for"
    assert [line for line in said if "no real run" in line] == [
        click.style(failure, fg="red"),
        "  note        no real run; give it longer with --for",
    ]


def test_runs_whose_answer_nobody_got_are_counted_by_who_hit_them(history: History) -> None:
    job = "projects/local/locations/emulator/jobs/refresh-opening-signals"
    with psycopg.connect(history.dsn, autocommit=True) as conn:
        # The run that died was hit by the emulator, the next one by a person.
        conn.execute("update refresh_runs set job_name = %s where status = 'abandoned'", [job])
        acquire(conn, request_id := uuid4(), JOB, force=True)
    verdict = history.judge()
    assert (verdict.unheard, verdict.others) == (1, {"manual": 1})
    assert "              3 answered, 1 whose answer nobody got, 1 hit by somebody else (manual)" in verdict.lines()
    history.tell(request_id, "failed")
    assert history.judge().others == {}


@pytest.mark.parametrize(
    ("runs", "skips", "unanswered", "why"),
    [
        ({"success": 3}, {"not_due": 97}, 0, None),
        ({"success": 1, "abandoned": 2}, {}, 97, None),
        ({"success": 1}, {"not_due": 97}, 0, "only 1 real run; most hits came before it was due"),
        ({"success": 2}, {"locked": 97}, 0, "only 2 real runs; most hits came while a run held the lease"),
        ({}, {"schedule_read_error": 97}, 0, "no real run; the schedule could not be read"),
        ({}, {}, 97, "no real run; most hits had no answer"),
        ({"failed": 9}, {"not_due": 88}, 0, "none of 9 real runs succeeded"),
    ],
)
def test_too_few_runs_prove_nothing_and_it_says_why(
    runs: dict[str, int], skips: dict[str, int], unanswered: int, why: str | None
) -> None:
    verdict = Verdict(100, 3, unanswered, {}, skips, runs, {}, [])
    assert (verdict.too_few or "").startswith(why or "")
    assert (verdict.too_few is None) == (why is None)


def test_where_the_times_are_not_shortened_too_few_runs_are_explained_by_that() -> None:
    verdict = Verdict(100, 3, 0, {}, {"not_due": 97}, {"success": 1}, {}, [], keeps_times=True)
    assert "a function keeps its times in a configured database" in (verdict.too_few or "")
    assert "configured" not in (replace(verdict, keeps_times=False).too_few or "")


def test_functions_that_nobody_holds_are_made_due(history: History) -> None:
    with psycopg.connect(history.dsn, autocommit=True) as conn:
        for name in ("held", "other"):
            call(conn, "ensure_schedule", function_name=name)
            acquire(conn, uuid4(), name, force=True)
        conn.execute(
            "update refresh_schedule set locked_by = null, locked_until = null where function_name = 'other'"
        )
        conn.execute("update refresh_schedule set next_run_at = clock_timestamp() + interval '1 h'")
        Scope([JOB, "held", "nobody"], []).make_due(history.dsn)
        due = conn.execute("select function_name from refresh_schedule where next_run_at <= clock_timestamp()")
        assert due.fetchall() == [(JOB,)]


def test_errors_that_tell_of_no_run_are_strange() -> None:
    ledger = Ledger()
    for status, body in ((500, {"error": "<html>"}), (500, {"function": JOB}), (500, {"ran": []}), (404, {})):
        ledger.enter(Hit(1, datetime.now(UTC), 0.1, status, body))
    assert ledger.strange == 1


def test_samples_do_not_get_among_the_sources_of_a_configured_database(dsn: str, empty_dsn: str) -> None:
    env = {"DATABASE_URL": dsn, "PGHOST": "elsewhere", "PGUSER": "somebody"}
    given = conninfo_to_dict(dsn)
    said = notice(env, EXTENSIONS)
    assert said.startswith(f'emulating in the configured database "{given["dbname"]}" at {given["host"]}')
    assert str(given["password"]) not in said
    assert said.endswith(
        ", not in one of its own: your schedules keep their times: a hit runs only what is due, and really runs it"
    )
    assert "follows the shortened times for up to an hour" in notice(env | {EMULATED: "60"}, EXTENSIONS)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("insert into opening_sources (name) values ('acme')")
        assert notice(env, EXTENSIONS) == said, "a sample's own name"
        conn.execute("insert into opening_signals (source, external_id) values ('umbrella', '1')")
    sentence = r"not samples \(umbrella\): unset DATABASE_URL and PGHOST to emulate in .*, or set CRONLEASE_SOURCES$"
    with pytest.raises(Refused, match=sentence):
        notice(env, EXTENSIONS)
    assert notice(env | {"CRONLEASE_SOURCES": "mine.toml"}, EXTENSIONS) == said
    assert notice(env, []) == said
    assert notice({"DATABASE_URL": empty_dsn}, EXTENSIONS), "where nothing is yet, nobody is known"


def test_the_openings_are_shown_beside_the_schedules_where_the_shipped_job_runs(history: History) -> None:
    assert "opening_signals by source" in rows_in_the_database(history.dsn, lines, [JOB], EXTENSIONS)
    said = rows_in_the_database(history.dsn, lines, [JOB])
    assert ("opening_signals by source" in said, JOB in said) == (False, True)


def test_the_schedules_that_are_emulated_are_shown_before_those_of_others(history: History) -> None:
    with psycopg.connect(history.dsn, autocommit=True) as conn:
        for number in range(30):
            call(conn, "ensure_schedule", function_name=f"another_{number:02}")
    _, _, _, first, second, *_ = rows_in_the_database(history.dsn, lines, [JOB]).splitlines()
    assert (first.split()[0], second.split()[0]) == (JOB, "another_00")


BROKEN: list[tuple[str, str | Callable[[History], None]]] = [
    ("two runs have the same fence", "update refresh_runs set fence = 3 where request_id = %(last)s"),
    (
        "fences do not grow with time",
        "update refresh_runs set started_at = clock_timestamp() where request_id = %(first)s",
    ),
    (
        "two committed runs overlap",
        "update refresh_runs set finished_at = clock_timestamp() where status = 'success'",
    ),
    (
        "a run finished after another had taken over",
        "update refresh_runs set finished_at = clock_timestamp() where request_id = %(first)s",
    ),
    (
        "a run that was replaced is still open",
        "update refresh_runs set status = 'running', finished_at = null where status = 'abandoned'",
    ),
    ("a caller was told of a success that was not recorded", "delete from refresh_runs where request_id = %(first)s"),
    (
        "a caller was told of a success that was not recorded",
        "update refresh_runs set status = 'failed' where request_id = %(last)s",
    ),
    ("a caller was told of a success that was not recorded", lambda history: history.tell(uuid4(), "success")),
    (
        "a caller was told that a run did not succeed, but it did",
        lambda history: history.tell(history.first, "lease_lost"),
    ),
    ("a run did not advance the schedule exactly once", "update refresh_schedule set run_count = run_count + 1"),
    ("a run did not advance the schedule exactly once", "update refresh_schedule set run_count = run_count - 1"),
    (
        "a success has not set the next run time",
        "update refresh_runs set next_run_at = null where status = 'success'",
    ),
    ("the schedule does not have the fence of its newest run", "update refresh_schedule set fence = fence + 1"),
    ("the schedule does not have the fence of its newest run", "update refresh_schedule set fence = fence - 1"),
    (
        "a lease is held by no open run",
        "update refresh_schedule set locked_by = %(last)s, locked_until = clock_timestamp()",
    ),
    (
        "an opening was written by no run",
        "update opening_signals set changed_at = clock_timestamp() where external_id = '1'",
    ),
    (
        "the runs counted other openings than there are",
        "update refresh_runs set inserted = inserted + 1 where status = 'partial'",
    ),
    ("the runs counted other openings than there are", "delete from opening_signals where external_id = '2'"),
]


@pytest.mark.parametrize(("rule", "change"), BROKEN)
def test_a_history_that_breaks_a_promise_is_reported(
    history: History, rule: str, change: str | Callable[[History], None]
) -> None:
    if isinstance(change, str):
        history.change(change)
    else:
        change(history)
    verdict = history.judge()
    assert rule in [violation.partition(":")[0] for violation in verdict.violations]
    assert f"  violations  {len(verdict.violations)}" in verdict.lines()


def test_a_due_row_whose_lease_has_run_out_is_stale_until_a_hit_takes_it(history: History) -> None:
    with psycopg.connect(history.dsn, autocommit=True) as conn:
        acquire(conn, request_id := uuid4(), JOB, force=True)
        conn.execute("update refresh_schedule set next_run_at = null")
        assert stale(history.dsn, history.before) == [], "its lease lasts"
        conn.execute("update refresh_schedule set locked_until = clock_timestamp() - interval '1 s'")
        assert stale(history.dsn, history.before) == [JOB]
        taken = acquire(conn, uuid4(), JOB)
        assert taken.acquired
        assert taken.locked_by != str(request_id)
    assert stale(history.dsn, history.before) == []
    stuck = judge(history.dsn, history.before, history.ledger, Counter(), [JOB])
    assert stuck.violations == [f"a lease has expired, and no hit takes it over: {JOB}"]
