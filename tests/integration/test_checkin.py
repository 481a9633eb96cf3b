"""Check-ins: a monitor hears of every real run, of nothing else, and cannot harm one."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from cronlease import Run, schedule_action
from cronlease.db.connection import Database
from cronlease.job import Job
from cronlease.observe import ping
from cronlease.outcome import FailReason, Outcome, SkipReason, Status
from cronlease.process import shutdown
from cronlease.settings import load
from cronlease.triggers.dispatch import Dispatcher
from cronlease.triggers.worker import Worker
from tests.integration.conftest import Room, step, wait_until
from tests.monitor import Behave, CheckedIn, Monitor, drip, error, garbage, monitoring, ok, silence

KEY = "/k3y-0f-th3-ch3ck"


@pytest.fixture
def monitor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Monitor]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with monitoring() as running:
        yield running


def enter(room: Room, job: Callable[[Run], Any], monitor: Monitor, **environment: Any) -> Outcome:
    return room.enter(job, ping_url=monitor.url(KEY), **environment)


async def nothing(run: Run) -> None: ...


def test_a_run_checks_in_when_it_starts_and_when_it_has_succeeded(room: Room, monitor: Monitor) -> None:
    async def job(run: Run) -> None:
        # The start is on its way while the job works.
        await asyncio.to_thread(wait_until, lambda: monitor.paths() == [f"{KEY}/start"])
        async with run.commit():
            pass

    outcome = enter(room, job, monitor)
    assert outcome.status is Status.SUCCESS
    rid = f"rid={outcome.request_id}"
    assert monitor.asked == [CheckedIn("GET", f"{KEY}/start", rid, ""), CheckedIn("GET", KEY, rid, "")]


def test_a_plain_job_that_is_over_immediately_has_still_started_before_it_ended(room: Room, monitor: Monitor) -> None:
    came_before_the_answer: list[list[str]] = []

    def take_time(handler: Any) -> None:
        monitor.over.wait(0.1)
        came_before_the_answer.append(monitor.paths())
        ok(handler)

    monitor.behave = take_time
    assert enter(room, lambda _: None, monitor).status is Status.SUCCESS
    assert came_before_the_answer == [[f"{KEY}/start"], [f"{KEY}/start", KEY]]


def test_a_skip_does_not_check_in(room: Room, monitor: Monitor) -> None:
    async def job(run: Run) -> None:
        assert (await room.hit(nothing, ping_url=monitor.url(KEY))).skipped is SkipReason.LOCKED

    assert enter(room, job, monitor).status is Status.SUCCESS
    assert enter(room, nothing, monitor).skipped is SkipReason.NOT_DUE
    room.query("select pause_refresh('tick', 'later')")
    assert enter(room, nothing, monitor, force=True).skipped is SkipReason.PAUSED
    elsewhere = Room("host=127.0.0.1 port=1")
    assert enter(elsewhere, nothing, monitor).skipped is SkipReason.SCHEDULE_READ_ERROR
    assert monitor.paths() == [f"{KEY}/start", KEY]


def test_what_went_wrong_is_one_line_without_secrets(room: Room, monitor: Monitor) -> None:
    async def fail(run: Run) -> None:
        raise ValueError("no way to\nhttp://me:hunter22@127.0.0.1/")

    async def halve(run: Run) -> None:
        run.partial("one half\nis missing")

    async def linger(run: Run) -> None:
        await asyncio.sleep(30)

    def ended(job: Callable[[Run], Any], **environment: str) -> CheckedIn:
        outcome = enter(room, job, monitor, force=True, **environment)
        assert monitor.asked[-1].query == f"rid={outcome.request_id}"
        return monitor.asked[-1]._replace(query="")

    wrong = "ValueError: no way to http://***@127.0.0.1/"
    assert ended(fail) == CheckedIn("POST", f"{KEY}/fail", "", wrong)
    assert ended(halve) == CheckedIn("POST", KEY, "", "one half is missing")
    late = "deadline: the run took longer than 0.3 s"
    assert ended(linger, max_run="0.3s") == CheckedIn("POST", f"{KEY}/fail", "", late)


def test_a_run_that_another_one_follows_says_nothing_of_its_end(room: Room, monitor: Monitor) -> None:
    async def be_replaced(run: Run) -> None:
        room.take_over()
        async with run.commit():
            raise AssertionError("not reached")

    def be_told(run: Run) -> None:
        run._lease.interrupt()
        run.check()

    assert enter(room, be_told, monitor).failed is FailReason.INTERRUPTED
    assert enter(room, be_replaced, monitor, force=True).failed is FailReason.LEASE_LOST
    wait_until(lambda: len(monitor.asked) == 2)
    assert monitor.paths() == [f"{KEY}/start"] * 2


def test_each_row_has_a_check_of_its_own_whichever_door_it_comes_in_by(room: Room, monitor: Monitor) -> None:
    """HTTP and the command line: tests/acceptance."""
    settings = load({"CRONLEASE_DISPATCH_PAUSE": "0s", "CRONLEASE_PING_URL": monitor.url("/k/{function}?create=1")})
    jobs = {"note": Job.of(nothing, settings, name="note", has_row=False)}

    async def doors() -> None:
        database = Database(room.dsn)
        try:
            report = await Dispatcher(jobs, database, settings).run_due()
            assert [outcome.function for outcome in report.ran] == ["report 17/é", "second"]
            later("third")
            await step(Worker(jobs, database, settings))
        finally:
            await database.close()

    def later(name: str) -> None:
        with psycopg.connect(room.dsn, autocommit=True) as conn:
            schedule_action(conn, name, "note", delay=timedelta(0))

    later("report 17/é")
    later("second")
    asyncio.run(doors())
    names = ("report%2017%2F%C3%A9", "second", "third")
    assert monitor.paths() == [path for name in names for path in (f"/k/{name}/start", f"/k/{name}")]
    assert all(each.query.startswith("create=1&rid=") for each in monitor.asked)


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (error, "it answered 500"),
        (garbage, "BadStatusLine"),
        (silence, "it did not answer in time"),
        (None, "[Errno 111] Connection refused"),
    ],
)
def test_a_monitor_that_is_ill_costs_a_run_little_time_and_nothing_else(
    room: Room,
    monitor: Monitor,
    behave: Behave | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hurry(monkeypatch)
    caplog.set_level(logging.WARNING)
    if behave is None:
        monitor.shutdown()
        monitor.server_close()
    else:
        monitor.behave = behave
    began = time.monotonic()
    outcome = enter(room, nothing, monitor)
    assert time.monotonic() - began < 5
    assert (outcome.status, outcome.error) == (Status.SUCCESS, None)
    wait_until(lambda: len(caplog.records) == 2)
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    # On a busy machine a monitor may be given up before it is known what ails it.
    why = {record.getMessage().partition("does not affect the run: 127.0.0.1: ")[2] for record in caplog.records}
    assert why <= {said, "it did not answer in time"}
    assert KEY not in caplog.text


def test_an_answer_without_an_end_is_not_waited_for(
    room: Room, monitor: Monitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hurry(monkeypatch)
    monitor.behave = drip
    began = time.monotonic()
    assert enter(room, nothing, monitor).status is Status.SUCCESS
    assert time.monotonic() - began < 5
    assert [record.getMessage()[-25:] for record in caplog.records] == ["it did not answer in time"]


@pytest.mark.parametrize("times", [1, 2])
def test_a_process_that_has_no_thread_to_spare_runs_all_the_same(
    room: Room, monitor: Monitor, times: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start, refused = threading.Thread.start, iter(range(times))

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("check-in") and next(refused, None) is not None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert enter(room, nothing, monitor).status is Status.SUCCESS
    assert [record.getMessage()[-22:] for record in caplog.records] == ["can't start new thread"] * times
    assert monitor.paths() == [KEY][times - 1 :]


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ping, "_STEP_SECONDS", 0.2)
    monkeypatch.setattr(ping, "_START_FIRST_SECONDS", 0.05)
    monkeypatch.setattr(ping, "_AWAITED_SECONDS", 0.5)


def test_the_wait_for_a_monitor_fits_into_the_last_words_of_a_process() -> None:
    assert ping._START_FIRST_SECONDS + ping._STEP_SECONDS < ping._AWAITED_SECONDS
    assert ping._AWAITED_SECONDS < shutdown._LAST_WORDS_SECONDS
