"""Rows that a client cannot read, and claims whose answer nobody uses: no run, no 500, and no lease is left (D7)."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cronlease.db.connection import Database
from cronlease.db.functions import read_refresh_status
from cronlease.job import Hit, Job
from cronlease.outcome import Outcome, SkipReason
from cronlease.run.execution import run_once
from cronlease.settings import load
from cronlease.triggers.dispatch import Dispatcher
from tests.acceptance.shell import Shell
from tests.faults.profile import one_in
from tests.integration.conftest import NAME, Room, step
from tests.proxy import proxied

DEEP = "(repeat('[', 5000) || repeat(']', 5000))"
ROWS = {
    "a number too long": "args = '{\"n\": 1e5000}'",
    "nested too deep": f"args = ('{{\"n\": ' || {DEEP} || '}}')::jsonb",
}


async def freed(room: Room, seconds: float = 10) -> bool:
    """Whether the lease is gone in time; the event loop goes on meanwhile."""
    for _ in range(int(seconds / 0.05)):
        if room.row("locked_by") == (None,):
            return True
        await asyncio.sleep(0.05)
    return False


async def tick(run: Any) -> None: ...


class Hits:
    """Hits on one database, over connections that stay open."""

    def __init__(self, dsn: str, **environment: str) -> None:
        self.settings = load({f"CRONLEASE_{name.upper()}": value for name, value in environment.items()})
        self.database = Database(dsn, pooler=self.settings.pooler)
        self.job = Job.of(tick, self.settings, name=NAME)

    async def hit(self, *, force: bool = False) -> Outcome:
        return await run_once(self.job, Hit(force=force), self.database, self.settings)


@pytest.mark.parametrize("changes", ROWS.values(), ids=ROWS)
def test_args_that_cannot_be_read_leave_no_lease(room: Room, tmp_path: Path, changes: str) -> None:
    async def act() -> None:
        hits = Hits(room.dsn)
        assert (await hits.hit()).status == "success"
        room.query(f"update refresh_schedule set next_run_at = null, {changes}")
        # The second time on a prepared connection.
        for _ in range(2):
            assert (await hits.hit()).skipped is SkipReason.SCHEDULE_READ_ERROR
            assert room.row("locked_by, fence") == (None, 1), "no lease was granted"
        # A run of a version that granted one.
        room.query(f"update refresh_runs set {changes}")
        document = await hits.database.ask(read_refresh_status())
        shown = [run["args"] for run in document["runs"]]
        assert {"unreadable"} in [set(args) for args in shown]
        assert json.dumps(document)
        hidden = await hits.database.ask(read_refresh_status(args=False))
        assert not any("args" in run for run in hidden["runs"])
        await hits.database.close()

    asyncio.run(act())
    shell = Shell(room.dsn, tmp_path)
    for verb in (["status"], ["runs"], ["explain", NAME], ["schedule", "show", NAME], ["schedule", "list"]):
        assert shell.quickly(*verb)[0] == 0, shell.quickly(*verb)
        assert shell.quickly(*verb, "--json")[0] == 0
    explained = shell.says_quickly("explain", NAME)
    assert "It cannot run: its args cannot be read (" in explained
    assert "It is due" not in explained


@pytest.mark.parametrize("changes", one_in(3, ROWS.values()), ids=ROWS)
def test_a_dispatcher_passes_over_args_that_cannot_be_read_and_names_the_row(
    room: Room, changes: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def act() -> None:
        hits = Hits(room.dsn)
        room.query(f"select schedule_action(name, '{NAME}') from unnest(array['bad', 'good']) name")
        room.query(f"update refresh_schedule set next_run_at = now() - interval '1 h', {changes}")
        room.query("update refresh_schedule set next_run_at = now(), args = '{}' where function_name = 'good'")
        job = hits.job._replace(has_row=False)
        dispatcher = Dispatcher({NAME: job}, hits.database, hits.settings)
        report = await dispatcher.run_due()
        assert [outcome.function for outcome in report.ran] == ["good"]
        assert (report.failed, report.reason) == ((), None)
        # Nothing else is due, so there is nothing to ask for again without a pause.
        assert (await step(dispatcher)).due_in != timedelta(0)
        await hits.database.close()

    asyncio.run(act())
    assert room.query("select locked_by, fence from refresh_schedule where function_name = 'bad'") == [(None, 0)]
    assert 'the args of "bad" cannot be read' in caplog.text
    doctor = json.loads(Shell(room.dsn, Path()).quickly("doctor", "--json")[1])
    (finding,) = [each for each in doctor["findings"] if each["check"] == "args"]
    assert finding["level"] == "broken"
    assert finding["said"].endswith("cannot be read: bad")


def test_a_time_that_cannot_be_read_is_no_500(room: Room) -> None:
    async def act() -> None:
        hits = Hits(room.dsn)
        assert (await hits.hit()).status == "success"
        room.query("update refresh_schedule set next_run_at = '20000-01-01'")
        assert (await hits.hit()).skipped is SkipReason.SCHEDULE_READ_ERROR
        assert (await hits.hit(force=True)).status == "success"
        await hits.database.close()

    asyncio.run(act())


@pytest.mark.parametrize("how", ["timed out", "cancelled"])
def test_a_claim_whose_answer_is_not_waited_for_is_released(room: Room, how: str) -> None:
    async def act() -> None:
        with proxied(room.dsn) as proxy:
            timeout = "0.5s" if how == "timed out" else "30s"
            hits = Hits(proxy.dsn, acquire_timeout=timeout, lease="60s", max_run="10m", pooler="transaction")
            assert (await hits.hit()).status == "success"
            held = proxy.hold(b"acquire_refresh_lock", "reply")
            task = asyncio.ensure_future(hits.hit(force=True))
            assert await asyncio.to_thread(held.reached.wait, 10)
            assert room.row("locked_by") != (None,), "the database has granted it"
            if how == "timed out":
                assert (await task).skipped is SkipReason.SCHEDULE_READ_ERROR
            else:
                task.cancel()
            assert await freed(room)
            held.drop()
            await hits.database.close()

    asyncio.run(act())
