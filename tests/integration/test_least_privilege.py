"""A deployment that connects as cronlease_runner runs as any other; one that may only read never runs (P25)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cronlease import Run, SkipReason, Status, schedule_action
from cronlease.db.connection import Database
from cronlease.db.functions import read_refresh_status
from cronlease.db.migration.migrate import migrate
from cronlease.job import Job
from cronlease.settings import load
from cronlease.triggers.dispatch import Dispatcher
from opening_signals.job import refresh
from tests.conftest import Server
from tests.integration.boards import Feeds, answer, board, counts, job, served, titles
from tests.integration.conftest import NAME, Room


@pytest.fixture
def logins(server: Server) -> Iterator[dict[str, str]]:
    """Role -> the name of a login for it. Name it before the database, so that they are dropped after."""
    found = {role: f"cronlease_test_{uuid4().hex[:12]}" for role in ("cronlease_runner", "cronlease_reader")}
    with psycopg.connect(server.admin, autocommit=True) as admin:
        for name in found.values():
            admin.execute(sql.SQL("create role {} login password 'secret'").format(sql.Identifier(name)))
        yield found
        for name in found.values():
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture
def as_role(logins: dict[str, str], dsn: str) -> dict[str, Room]:
    """Role -> the room as that role sees it."""
    migrate(dsn, roles=True)
    with psycopg.connect(dsn, autocommit=True) as conn:
        for role, name in logins.items():
            conn.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), sql.Identifier(name)))
    return {role: Room(make_conninfo(dsn, user=name, password="secret")) for role, name in logins.items()}


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeds]:
    yield from served(tmp_path, monkeypatch)


async def work(run: Run) -> None:
    async with run.transaction() as conn:
        await conn.execute("insert into public.opening_sources (name) values ('acme')")
    async with run.commit() as conn:
        await conn.execute("insert into public.opening_signals (source, external_id) values ('acme', '1')")
        await schedule_action(conn, "follow up", "follow_up")


async def fail(run: Run) -> None:
    raise ValueError("no")


def test_a_runner_goes_through_the_whole_life_of_a_run(as_role: dict[str, Room], room: Room) -> None:
    runner = as_role["cronlease_runner"]
    assert runner.enter(work, migrate="never").status is Status.SUCCESS
    assert runner.enter(work, migrate="never").skipped is SkipReason.NOT_DUE
    assert runner.enter(fail, migrate="never", force=True).status is Status.FAILED
    assert room.runs() == ["success", "failed"]
    assert room.row("locked_by, failures") == (None, 1)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        runner.query("update refresh_schedule set next_run_at = null")

    async def dispatched() -> list[str]:
        database, settings = Database(runner.dsn), load({"CRONLEASE_MIGRATE": "never"})
        try:
            jobs = {name: Job.of(work, settings, name=name) for name in (NAME,)}
            jobs["follow_up"] = Job.of(_nothing, settings, name="follow_up", has_row=False)
            report = await Dispatcher(jobs, database, settings).run_due()
            status = await database.ask(read_refresh_status())
            assert len(status["schedules"]) == 2
            return [outcome.function for outcome in report.ran]
        finally:
            await database.close()

    assert asyncio.run(dispatched()) == ["follow up"]


async def _nothing(run: Run) -> None: ...


def test_a_runner_refreshes_the_openings(as_role: dict[str, Room], room: Room, feeds: Feeds) -> None:
    runner = as_role["cronlease_runner"]
    feeds.serve(acme=board(job(1), job(2)), globex=board(job(1, "Cook")))
    assert counts(runner.enter(refresh, migrate="never")) == (3, 3, 0, 0, 0)
    # Of a run that died before its merge, and of one that is alive.
    room.query("insert into opening_staging_pages values (gen_random_uuid(), 'acme', 0, '{}', 0)")
    room.query("insert into refresh_schedule (function_name, action) values ('other', 'other')")
    room.query("select acquire_refresh_lock('other', gen_random_uuid())")
    room.query("insert into opening_staging_pages select request_id, 'other', 0, '{}', 0 from live_runs")
    feeds.serve(acme=board(job(2, "Head Baker")), globex=board(job(1, "Cook")))
    feeds.answers["globex"] = answer(b"", 500)
    assert counts(runner.enter(refresh, migrate="never", force=True)) == (1, 0, 1, 0, 1)
    assert titles(room) == {"acme/1": "Baker", "acme/2": "Head Baker", "globex/1": "Cook"}
    assert room.query("select source from opening_staging_pages") == [("other",)]


def test_a_reader_never_runs_and_is_told_of_the_grant(
    as_role: dict[str, Room], room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    reader = as_role["cronlease_reader"]
    for _ in range(2):
        assert reader.enter(fail, force=True).skipped is SkipReason.SCHEDULE_READ_ERROR
        room.enter(_nothing)
    assert "permission denied" in caplog.text
    assert "grant this role cronlease_runner" in caplog.text
    assert reader.query("select function_name from refresh_status") == [(NAME,)]
    assert room.runs() == ["success"]
