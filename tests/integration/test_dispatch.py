"""The run-due trigger on a real database: what is due is run, by exactly one dispatcher, and no row stops another."""

import asyncio
import functools
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from cronlease import Run, SkipReason, Status, schedule_action
from cronlease.db.connection import Database
from cronlease.errors import AlreadyThere, StillRunning
from cronlease.job import Job
from cronlease.outcome import FailReason
from cronlease.settings import load
from cronlease.triggers.dispatch import Dispatcher
from cronlease.triggers.report import Report
from tests.integration.conftest import step

SETTINGS = load({"CRONLEASE_DISPATCH_PAUSE": "0s", "CRONLEASE_LEASE": "30s"})


class Actions:
    """A deployment with a few actions, and dispatchers of it; `ran` is what their jobs have noted."""

    def __init__(self, dsn: str, concurrency: int = 1) -> None:
        self.dsn = dsn
        self._concurrency = concurrency
        self.ran: list[str] = []
        self.jobs: dict[str, Job] = {}
        self.add("note", self.note)

    async def note(self, run: Run) -> None:
        self.ran.append(run.function)

    def add(
        self,
        name: str,
        function: Callable[[Run], Any],
        *,
        has_row: bool = False,
        limits: dict[str, str] | None = None,
        **times: Any,
    ) -> None:
        settings = load(limits) if limits else SETTINGS
        self.jobs[name] = Job.of(function, settings, name=name, has_row=has_row, **times)

    def schedule(self, name: str, action: str = "note", **when: Any) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            schedule_action(conn, name, action, **when)

    def run_due(self, **environment: str) -> Report:
        return asyncio.run(self.dispatch(**environment))

    async def dispatch(self, **environment: str) -> Report:
        settings = load({"CRONLEASE_DISPATCH_PAUSE": "0s", **environment}) if environment else SETTINGS
        database = Database(self.dsn)
        try:
            return await Dispatcher(self.jobs, database, settings).run_due(concurrency=self._concurrency)
        finally:
            await database.close()

    def query(self, text: str) -> list[Any]:
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            cursor = conn.execute(text)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(params=[1, 7], ids=["one by one", "in batches"])
def actions(dsn: str, request: pytest.FixtureRequest) -> Actions:
    return Actions(dsn, request.param)


# For what is true only of runs that follow each other.
one_by_one = pytest.mark.parametrize("actions", [1], indirect=True, ids=["one by one"])


def names(outcomes: Any) -> list[str]:
    return [outcome.function for outcome in outcomes]


def test_what_is_due_is_run_the_oldest_first_and_a_one_shot_completes(actions: Actions) -> None:
    for name in ("young", "old", "oldest", "later"):
        actions.schedule(name, args={"name": name}, **({"delay": "1h"} if name == "later" else {}))
    actions.query("update refresh_schedule set next_run_at = now() - interval '1 h' where function_name = 'oldest'")
    actions.query("update refresh_schedule set next_run_at = now() - interval '1 m' where function_name = 'old'")

    report = actions.run_due()

    assert actions.ran == ["oldest", "old", "young"]
    assert report.as_json()["ok"]
    assert report.as_json()["remaining"] == 0
    assert [entry["function"] for entry in report.as_json()["ran"]] == actions.ran
    states = dict(actions.query("select function_name, state from refresh_status"))
    assert states == {"oldest": "completed", "old": "completed", "young": "completed", "later": "pending"}
    assert actions.run_due().ran == ()


def test_a_bad_row_costs_itself_a_backoff_and_stops_nobody(actions: Actions) -> None:
    async def burst(run: Run) -> None:
        raise RuntimeError("out of paper")

    actions.add("burst", burst)
    actions.schedule("first", "burst")
    actions.schedule("unreadable")
    actions.query(
        "update refresh_schedule set every = 'now and then', once = false where function_name = 'unreadable'"
    )
    actions.schedule("second")

    report = actions.run_due()

    assert (names(report.ran), names(report.failed)) == (["second"], ["first"])
    body = report.as_json()
    assert (body["ok"], report.http_status) == (False, 500)
    assert body["failed"][0]["error"] == "RuntimeError: out of paper"
    (row,) = actions.query(
        "select state, failures, next_run_at > now() + interval '10 min' from refresh_status"
        " where function_name = 'first'"
    )
    assert row == ("pending", 1, True)


def test_a_row_of_an_unknown_action_is_left_alone_and_named(actions: Actions) -> None:
    actions.schedule("theirs", "somebody_elses")
    actions.schedule("ours")
    before = actions.query("select * from refresh_schedule where function_name = 'theirs'")

    body = actions.run_due().as_json()

    assert [entry["function"] for entry in body["ran"]] == ["ours"]
    assert body["skipped"] == [{"function": "theirs", "reason": "unknown_action"}]
    assert (body["ok"], body["remaining"]) == (True, 0)
    assert actions.query("select * from refresh_schedule where function_name = 'theirs'") == before


@pytest.mark.thorough
def test_many_dispatchers_run_each_row_exactly_once(actions: Actions) -> None:
    wanted = [f"row {number:03}" for number in range(120)]
    for name in wanted:
        actions.schedule(name)

    async def all_at_once() -> list[Report]:
        return await asyncio.gather(*(actions.dispatch() for _ in range(6)))

    reports = asyncio.run(all_at_once())

    assert sorted(actions.ran) == wanted
    assert sorted(name for report in reports for name in names(report.ran)) == wanted
    assert actions.query("select count(*), count(distinct function_name) from refresh_runs") == [(120, 120)]


def test_a_scheduled_function_without_a_row_gets_it_and_runs_on_an_empty_database(empty_dsn: str) -> None:
    actions = Actions(empty_dsn)
    actions.add("tick", actions.note, has_row=True)
    assert names(actions.run_due().ran) == ["tick"]
    actions.query("delete from refresh_schedule")
    assert names(actions.run_due().ran) == ["tick"], "the schema is there, the row is not"


@one_by_one
def test_the_budget_ends_it_before_another_run_might_not_fit(actions: Actions) -> None:
    async def slow(run: Run) -> None:
        await asyncio.sleep(0.8)

    actions.add("slow", slow)
    for number in range(4):
        actions.schedule(f"slow {number}", "slow")

    report = actions.run_due(CRONLEASE_MAX_RUN="2s", CRONLEASE_LEASE="30s")

    assert 1 <= len(report.ran) <= 2
    assert report.failed == ()
    assert report.as_json()["remaining"] == 4 - len(report.ran)


@one_by_one
def test_a_run_that_the_budget_cuts_off_is_first_next_time_and_then_has_all_of_its_own(actions: Actions) -> None:
    async def endless(run: Run) -> None:
        await asyncio.sleep(60)

    actions.add("endless", endless, limits={"CRONLEASE_MAX_RUN": "1s"})
    actions.schedule("quick")
    actions.schedule("endless", "endless")
    row = "select failures, last_status, locked_by, next_run_at <= clock_timestamp() from refresh_status"
    row += " where function_name = 'endless'"

    due_at = actions.query("select next_run_at from refresh_schedule where function_name = 'endless'")
    report = actions.run_due(CRONLEASE_MAX_RUN="1s", CRONLEASE_LEASE="30s")
    assert (report.failed, [outcome.status for outcome in report.interrupted]) == ((), [Status.INTERRUPTED])
    assert (report.http_status, report.as_json()["skipped"][0]["reason"]) == (200, "interrupted")
    assert actions.query(row) == [(0, "interrupted", None, True)]
    # It keeps its place: nobody who came due later goes before it.
    assert actions.query("select next_run_at from refresh_schedule where function_name = 'endless'") == due_at

    report = actions.run_due(CRONLEASE_MAX_RUN="1s", CRONLEASE_LEASE="30s")
    assert [outcome.failed for outcome in report.failed] == [FailReason.DEADLINE]
    assert actions.query(row) == [(1, "failed", None, False)]


@one_by_one
def test_dispatches_keep_their_distance_from_the_end_of_one_to_the_start_of_the_next(actions: Actions) -> None:
    async def linger(run: Run) -> None:
        await asyncio.sleep(0.3)

    actions.add("linger", linger)
    for number in range(2):
        actions.schedule(f"row {number}", "linger")
    actions.run_due(CRONLEASE_DISPATCH_PAUSE="0.2s", CRONLEASE_LEASE="30s")
    gaps = actions.query(
        "select extract(epoch from started_at - lag(finished_at) over (order by started_at)) from refresh_runs"
    )
    assert [gap is None or gap >= 0.2 for (gap,) in gaps] == [True] * 2


def test_a_database_that_cannot_be_read_runs_nothing_and_says_so() -> None:
    actions = Actions("postgresql://nobody@127.0.0.1:1/nothing")
    report = actions.run_due(CRONLEASE_ACQUIRE_TIMEOUT="2s", CRONLEASE_LEASE="30s")
    assert (report.reason, report.ran, report.as_json()["remaining"]) == (SkipReason.SCHEDULE_READ_ERROR, (), None)


def test_an_action_has_its_own_lease_and_times(actions: Actions) -> None:
    leases: list[float] = []

    async def look(run: Run) -> None:
        async with run.connection() as conn:
            cursor = await conn.execute(
                "select extract(epoch from locked_until - clock_timestamp()) from refresh_schedule"
                " where function_name = %s",
                [run.function],
            )
            row = await cursor.fetchone()
            assert row is not None
            leases.append(row[0])

    actions.add("long", look, lease=timedelta(hours=2))
    actions.schedule("a", "long")
    actions.run_due()
    assert 7100 < leases[0] <= 7200


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def test_a_name_that_exists_is_an_error_unless_replaced_and_never_while_it_runs(
    actions: Actions, conn: psycopg.Connection
) -> None:
    schedule_action(conn, "send", "note", args={"to": "a"})
    with pytest.raises(AlreadyThere, match="already a schedule"):
        schedule_action(conn, "send", "note")
    assert actions.query("select args from refresh_schedule") == [({"to": "a"},)]
    schedule_action(conn, "send", "note", args={"to": "b"}, replace=True)
    assert actions.query("select args from refresh_schedule") == [({"to": "b"},)]
    conn.execute("select acquire_refresh_lock('send', gen_random_uuid())")
    with pytest.raises(StillRunning, match="is running until"):
        schedule_action(conn, "send", "note", replace=True)


def test_a_job_schedules_an_action_in_the_transaction_of_its_data(actions: Actions) -> None:
    async def order(run: Run) -> None:
        async with run.commit() as conn:
            await schedule_action(conn, "mail 7", "note", delay="0s")
            if run.args["fails"]:
                raise RuntimeError("no")

    actions.add("order", order)
    actions.schedule("order 7", "order", args={"fails": True})
    assert names(actions.run_due().failed) == ["order 7"]
    assert actions.query("select count(*) from refresh_schedule where function_name = 'mail 7'") == [(0,)]
    actions.query("update refresh_schedule set next_run_at = now(), args = '{\"fails\": false}'")
    assert names(actions.run_due().ran) == ["order 7", "mail 7"]


def test_a_row_names_its_action_and_a_hit_runs_that(actions: Actions, dsn: str) -> None:
    from cronlease.job import Hit
    from cronlease.run.execution import run_once

    actions.schedule("tick", every="10m..15m")

    async def hit(jobs: dict[str, Job]) -> Any:
        database = Database(dsn)
        try:
            return await run_once(jobs["tick"], Hit(), database, SETTINGS, jobs=jobs)
        finally:
            await database.close()

    async def tick(run: Run) -> None:
        raise AssertionError("the row says note")

    actions.add("tick", tick, has_row=True)
    assert asyncio.run(hit({"tick": actions.jobs["tick"]})).skipped is SkipReason.UNKNOWN_ACTION
    assert actions.query("select count(*) from refresh_runs") == [(0,)]
    assert asyncio.run(hit(actions.jobs)).status is Status.SUCCESS
    assert actions.ran == ["tick"]


def test_a_run_in_a_spawned_process_knows_its_parent(actions: Actions, monkeypatch: pytest.MonkeyPatch) -> None:
    """The doors of such a process are shut; a program that opens the room by itself is not stopped, but recorded."""
    parent = "6f2c1d9e-3c5b-4c0e-9d53-0f2a5a4d7e11"
    monkeypatch.setenv("CRONLEASE_SPAWNED", parent)
    actions.schedule("child")
    actions.run_due()
    assert actions.query("select function_name, parent_request_id::text from refresh_runs") == [("child", parent)]


def test_a_new_function_gets_its_row_though_others_are_due(actions: Actions) -> None:
    actions.schedule("backlog")
    actions.add("tick", actions.note, has_row=True)

    async def first() -> None:
        database = Database(actions.dsn)
        try:
            await step(Dispatcher(actions.jobs, database, SETTINGS))
        finally:
            await database.close()

    asyncio.run(first())
    assert actions.ran == ["backlog"]
    assert actions.query("select state from refresh_status where function_name = 'tick'") == [("pending",)]


def test_a_row_that_is_due_again_immediately_does_not_keep_run_due_going(actions: Actions) -> None:
    actions.schedule("eager", every="0.01s..0.02s")
    actions.schedule("patient")
    report = actions.run_due(CRONLEASE_DISPATCH_PAUSE="0.05s", CRONLEASE_LEASE="30s")
    assert sorted(names(report.ran)) == ["eager", "eager", "patient"]


def test_a_name_that_is_taken_does_not_cost_the_transaction(actions: Actions) -> None:
    """In a job that may run twice: what was scheduled before is left as it is, and the data is written."""

    async def order(run: Run) -> None:
        async with run.commit() as conn:
            await conn.execute("create table if not exists effect (id int)")
            try:
                await schedule_action(conn, "taken", "note")
            except AlreadyThere:
                await conn.execute("insert into effect values (1)")

    actions.add("order", order)
    actions.schedule("taken", delay="1h")
    actions.schedule("order 1", "order")
    assert names(actions.run_due().ran) == ["order 1"]
    assert actions.query("select * from effect") == [(1,)]


@pytest.mark.parametrize(
    "when",
    [
        {"args": {"a": float("nan")}},
        {"args": {"a": "\0"}},
        {"args": {"a": "\ud800"}},
        {"args": {"a": object()}},
        {"delay": -5},
        {"delay": "soon"},
        {"at": "tomorrow"},
        {"at": datetime(2026, 12, 24)},
        {"every": "now and then"},
    ],
)
def test_what_cannot_be_a_schedule_is_a_value_error(conn: psycopg.Connection, when: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"args|delay|at is|duration|write"):
        schedule_action(conn, "x", "note", **when)
    assert conn.execute("select count(*) from refresh_schedule").fetchone() == (0,)


def test_an_async_function_in_a_plain_decorator_is_run(actions: Actions) -> None:
    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*given: Any) -> Any:
            return function(*given)

        return wrapped

    def careless(run: Run) -> Any:
        return actions.note(run)

    actions.add("timed", timed(actions.note))
    actions.add("careless", careless)
    actions.schedule("a", "timed")
    actions.schedule("b", "careless")
    report = actions.run_due()
    assert (names(report.ran), actions.ran) == (["a"], ["a"])
    assert "declare it with async def" in (report.failed[0].error or "")
