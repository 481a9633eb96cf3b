"""When something breaks: the three rungs of the failure path, fail-closed claims, commits whose answer is lost."""

import asyncio
import logging
import re
import time
from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cronlease import Run
from cronlease.db.connection import Database
from cronlease.db.migration.migrate import migrate
from cronlease.job import Hit, Job
from cronlease.outcome import FailReason, SkipReason, Status
from cronlease.run.execution import run_once
from cronlease.settings import load
from tests.conftest import Server
from tests.faults.profile import one_in
from tests.integration.conftest import Room
from tests.proxy import proxied


async def nothing(run: Run) -> None:
    pass


async def fail(run: Run) -> None:
    raise ValueError("no luck")


def never(run: Run) -> None:
    raise AssertionError("the job must not be touched")


BREAK_FINISH = """
create function refuse() returns trigger language plpgsql as $$ begin raise exception 'disk full, say'; end $$;
create trigger no_end before update on refresh_runs
for each row when (new.status <> 'running') execute function refuse()
"""
BREAK_RELEASE = """
create trigger no_release before update on refresh_schedule
for each row when (old.locked_by is not null) execute function refuse()
"""


def test_first_rung_a_failure_is_finished_as_failed(room: Room) -> None:
    assert room.enter(fail).failed is FailReason.FAILED
    assert room.row("last_status, locked_by") == ("failed", None)


def test_second_rung_a_finish_that_cannot_be_written_releases_the_lease(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.enter(nothing)
    room.query(BREAK_FINISH)
    outcome = room.enter(fail, force=True)
    assert (outcome.failed, outcome.error) == (FailReason.FAILED, "ValueError: no luck")
    assert room.row("locked_by, last_status") == (None, "success")
    assert "the lease was released instead" in caplog.text


def test_third_rung_a_lease_that_cannot_be_released_runs_out(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    room.enter(nothing)
    room.query(BREAK_FINISH + ";" + BREAK_RELEASE)
    assert room.enter(fail, force=True, lease="1s").failed is FailReason.FAILED
    assert room.row("locked_by is not null")[0]
    assert "it will run out by itself" in caplog.text
    room.query("drop trigger no_release on refresh_schedule; drop trigger no_end on refresh_runs")
    deadline = time.monotonic() + 10
    while (outcome := room.enter(nothing, force=True)).skipped is SkipReason.LOCKED:
        assert time.monotonic() < deadline
    assert outcome.status is Status.SUCCESS
    assert room.runs() == ["success", "abandoned", "success"]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "ruin",
    [
        lambda run: run.report(fetched=7 / 2),
        lambda run: run.report(fetched=True),
        lambda run: run.report(inserted=-1),
        lambda run: run.report(updated=10**30),
        lambda run: run.report(hint=object()),
        lambda run: run.partial(5),
        lambda run: run.partial(" "),
        lambda run: (_ for _ in ()).throw(ValueError("half a character: \ud800, and a NUL: \0")),
        lambda run: (_ for _ in ()).throw(Unspeakable()),
    ],
)
def test_whatever_a_job_does_wrong_costs_a_backoff_and_frees_the_lease(
    room: Room, ruin: Callable[[Run], None]
) -> None:
    async def job(run: Run) -> None:
        ruin(run)

    outcome = room.enter(job)
    assert outcome.failed is FailReason.FAILED
    assert room.row("locked_by, failures, last_status, next_run_at > now() + interval '19 min'") == (
        None,
        1,
        "failed",
        True,
    )
    assert room.row("last_error")[0] == outcome.error


def test_a_success_that_cannot_be_written_is_a_failure(room: Room) -> None:
    room.enter(nothing)
    room.query(BREAK_FINISH)
    outcome = room.enter(nothing, force=True)
    assert outcome.failed is FailReason.FAILED
    assert outcome.error is not None
    assert "disk full, say" in outcome.error
    assert room.row("locked_by")[0] is None


def _closed_port(dsn: str) -> str:
    return make_conninfo(dsn, host="127.0.0.1", port=1)


def _wrong_password(dsn: str) -> str:
    return make_conninfo(dsn, password="wr0ng-s3cret")


def _no_such_database(dsn: str) -> str:
    return make_conninfo(dsn, dbname="nowhere")


def _malformed(dsn: str) -> str:
    return "postgresql://me:wr0ng-s3cret@host:not-a-port/db"


def _shifted(dsn: str) -> str:
    return "postgresql://me:wr0ng@s3cret@127.0.0.1:1/db"


def _cut_by_a_slash(dsn: str) -> str:
    return "postgresql://me:s3cret1/s3cret2@127.0.0.1:1/db"


@pytest.mark.parametrize(
    "broken", [_closed_port, _wrong_password, _no_such_database, _malformed, _shifted, _cut_by_a_slash]
)
def test_a_database_that_cannot_be_had_is_a_skip_and_the_job_is_not_touched(
    room: Room, broken: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    started = time.monotonic()
    outcome = Room(broken(room.dsn)).enter(never, acquire_timeout="5s")
    assert outcome.skipped is SkipReason.SCHEDULE_READ_ERROR
    assert (outcome.http_status, outcome.as_json()["ok"]) == (200, True)
    assert time.monotonic() - started < 6
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "DATABASE_URL" in record.getMessage()
    assert "s3cret" not in caplog.text


def test_a_database_that_never_answers_is_a_skip_within_the_time_limit(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    with proxied(room.dsn) as proxy:
        proxy.silent = True
        started = time.monotonic()
        outcome = Room(proxy.dsn).enter(never, acquire_timeout="1s")
        taken = time.monotonic() - started
    assert outcome.skipped is SkipReason.SCHEDULE_READ_ERROR
    assert taken < 2
    assert "did not answer within 1 s" in caplog.text


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("drop function acquire_refresh_lock", "part of the schema is missing|cronlease migrate"),
        ("drop table refresh_runs cascade", "cronlease migrate"),
        ("alter table refresh_schedule drop column every cascade", "cronlease migrate"),
        ("update refresh_schedule set every = 'sometimes', next_run_at = null", r"10m\.\.15m"),
    ],
)
def test_a_schedule_that_cannot_be_read_never_runs(
    room: Room, damage: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    room.enter(nothing)
    room.query("update refresh_schedule set next_run_at = null")
    room.query(damage)
    assert room.enter(never).skipped is SkipReason.SCHEDULE_READ_ERROR
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert re.search(said, record.getMessage())


def test_a_role_without_rights_gets_a_sentence(room: Room, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    room.enter(nothing)
    room.query("drop role if exists stranger; create role stranger login password 'stranger'")
    room.query("revoke execute on function acquire_refresh_lock from public")
    stranger = Room(make_conninfo(room.dsn, user="stranger", password="stranger"))
    assert stranger.enter(never).skipped is SkipReason.SCHEDULE_READ_ERROR
    assert "permission denied" in caplog.text
    assert "cronlease migrate" in caplog.text
    room.query("drop owned by stranger; drop role stranger")


@pytest.mark.parametrize("isolation", one_in(2, ["serializable", "repeatable read"]))
def test_a_stricter_default_isolation_level_still_gives_one_run(room: Room, isolation: str) -> None:
    room.enter(nothing)
    with psycopg.connect(room.dsn, autocommit=True) as conn:
        conn.execute(
            f"do $$ begin execute format('alter database %I set default_transaction_isolation = ''{isolation}''',"
            " current_database()); end $$"
        )
    for _ in range(5):
        room.query("update refresh_schedule set next_run_at = null")

        async def together() -> list[object]:
            answers = await asyncio.gather(*(room.hit(nothing) for _ in range(10)))
            return [answer.skipped or answer.status for answer in answers]

        answers = asyncio.run(together())
        assert answers.count(Status.SUCCESS) == 1
        assert set(answers) <= {Status.SUCCESS, SkipReason.LOCKED, SkipReason.NOT_DUE}


def test_a_claim_whose_connection_is_lost_is_asked_again_with_the_same_request(room: Room) -> None:
    room.enter(nothing)
    with proxied(room.dsn) as proxy:
        for what in ("request", "reply"):
            proxy.lose(b"acquire_refresh_lock", what)
            assert Room(proxy.dsn).enter(nothing, force=True).status is Status.SUCCESS
        assert proxy.lost == 2
    assert room.runs() == ["success"] * 3
    assert room.row("fence")[0] == 3


@pytest.mark.parametrize(("what", "status"), [("reply", Status.SUCCESS), ("request", Status.FAILED)])
def test_a_commit_whose_answer_is_lost_is_asked_about_never_guessed(room: Room, what: str, status: Status) -> None:
    room.enter(nothing)
    room.query("create table effect (n int)")
    with proxied(room.dsn) as proxy:

        async def job(run: Run) -> None:
            async with run.commit() as conn:
                await conn.execute("insert into effect values (1)")
                proxy.lose(b"commit", what)

        outcome = Room(proxy.dsn).enter(job, force=True)
        assert proxy.lost == 1
    assert outcome.status is status
    assert room.query("select count(*) from effect") == [(1 if status is Status.SUCCESS else 0,)]
    assert room.runs() == ["success", status.value]
    assert room.row("last_status, locked_by") == (status.value, None)


def test_a_commit_that_nobody_can_be_asked_about_is_unknown(room: Room) -> None:
    room.enter(nothing)
    with proxied(room.dsn) as proxy:

        async def job(run: Run) -> None:
            async with run.commit():
                proxy.lose(b"commit", "reply")
                proxy.refusing = True

        outcome = Room(proxy.dsn).enter(job, force=True, lease="2s")
    assert (outcome.failed, outcome.http_status) == (FailReason.COMMIT_UNKNOWN, 500)


def test_a_server_that_restarted_costs_no_run(room: Room) -> None:
    """Every pooled connection is dead after that; the next hit opens a new one."""

    async def hits() -> list[Status | None]:
        database, settings = Database(room.dsn), load({})
        answers = []
        for _ in range(3):
            outcome = await run_once(Job.of(job, settings, name="tick"), Hit(force=True), database, settings)
            answers.append(outcome.status)
            _cut_all(room.dsn)
        await database.close()
        return answers

    async def job(run: Run) -> None:
        # Also in the middle of a run, before its transaction.
        _cut_all(room.dsn)
        async with run.commit():
            pass

    assert asyncio.run(hits()) == [Status.SUCCESS] * 3


def test_a_schedule_that_appears_as_missing_on_an_open_connection_is_created(room: Room) -> None:
    async def hits() -> list[Status | None]:
        database, settings = Database(room.dsn), load({})
        answers = []
        for damage in ("select 1", "truncate refresh_schedule", "drop schema public cascade; create schema public"):
            room.query(damage)
            outcome = await run_once(Job.of(nothing, settings, name="tick"), Hit(force=True), database, settings)
            answers.append(outcome.status)
        await database.close()
        return answers

    assert asyncio.run(hits()) == [Status.SUCCESS] * 3


def test_a_database_that_falls_silent_between_hits_is_a_skip_within_the_time_limit(room: Room) -> None:
    with proxied(room.dsn) as proxy:

        async def hits() -> None:
            database, settings = Database(proxy.dsn), load({"CRONLEASE_ACQUIRE_TIMEOUT": "1s"})
            job = Job.of(nothing, settings, name="tick")
            assert (await run_once(job, Hit(), database, settings)).status is Status.SUCCESS
            assert (await run_once(job, Hit(), database, settings)).skipped is SkipReason.NOT_DUE
            proxy.silent = True
            started = time.monotonic()
            silent = await run_once(job, Hit(force=True), database, settings)
            assert silent.skipped is SkipReason.SCHEDULE_READ_ERROR
            assert time.monotonic() - started < 2
            proxy.silent = False
            proxy.cut()
            assert (await run_once(job, Hit(), database, settings)).skipped is SkipReason.NOT_DUE
            await database.close()

        asyncio.run(hits())


def test_a_time_that_cannot_be_read_is_a_skip_on_an_open_connection_too(room: Room) -> None:
    async def hits() -> None:
        database, settings = Database(room.dsn), load({})
        job = Job.of(nothing, settings, name="tick")
        await run_once(job, Hit(), database, settings)
        room.query("update refresh_schedule set next_run_at = '20000-01-01'")
        for _ in range(2):
            outcome = await run_once(Job.of(never, settings, name="tick"), Hit(), database, settings)
            assert outcome.skipped is SkipReason.SCHEDULE_READ_ERROR
        await database.close()

    asyncio.run(hits())


def test_a_migration_under_open_connections_costs_no_hit(room: Room) -> None:
    """Their prepared questions are of no use any more: a new function, and one that answers another row."""

    async def hits() -> None:
        database, settings = Database(room.dsn), load({})
        job = Job.of(nothing, settings, name="tick")
        await run_once(job, Hit(), database, settings)
        for change in ("drop function acquire_refresh_lock", "alter table refresh_schedule add column extra int"):
            for _ in range(3):
                assert (await run_once(job, Hit(), database, settings)).skipped is SkipReason.NOT_DUE
            room.query(change)
            migrate(room.dsn)
        assert (await run_once(job, Hit(), database, settings)).skipped is SkipReason.NOT_DUE
        await database.close()

    asyncio.run(hits())


def _cut_all(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
