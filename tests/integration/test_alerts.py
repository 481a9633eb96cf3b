"""Alerts on a real database and a real webhook: told once, in order, at little cost, whatever the webhook does."""

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from cronlease import Run, schedule_action
from cronlease.db.connection import Database
from cronlease.job import Job
from cronlease.observe import alert
from cronlease.outcome import FailReason, Outcome, SkipReason, Status
from cronlease.process import shutdown
from cronlease.run import alerts
from cronlease.settings import load
from cronlease.triggers.dispatch import Dispatcher
from cronlease.triggers.worker import Worker
from tests.integration.conftest import NAME, Room, step
from tests.monitor import Behave, Monitor, close, drip, error, garbage, monitoring, ok, redirect, silence

KEY = "/services/T0123ABCD/k3y-0f-th3-h00k"


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Monitor]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with monitoring() as running:
        yield running


async def succeed(run: Run) -> None: ...


async def fail(run: Run) -> None:
    raise ValueError("no answer from <!channel>")


def enter(room: Room, job: Any, webhook: Monitor, **environment: Any) -> Outcome:
    environment.setdefault("alert_url", webhook.url(KEY))
    return room.enter(job, force=True, **environment)


def texts(webhook: Monitor) -> list[str]:
    return [json.loads(each.body)["text"] for each in webhook.asked]


def heads(webhook: Monitor) -> list[str]:
    """The beginning of each message: the name and what happened."""
    return [text.partition(",")[0].partition(". ")[0] for text in texts(webhook)]


def pending(room: Room) -> int:
    ((count,),) = room.query("select count(*) from refresh_alerts")
    return int(count)


def retry_now(room: Room) -> None:
    room.query("update refresh_alerts set held_until = clock_timestamp()")


def test_an_incident_is_alerted_once_with_all_that_a_person_needs(room: Room, webhook: Monitor) -> None:
    for job in (succeed, fail, fail, fail, succeed, succeed):
        enter(room, job, webhook, status_url="https://here.example/status")
    failing, recovered = texts(webhook)
    first, helps, status = failing.split("\n")
    assert first.startswith(
        "tick is failing, one run: ValueError: no answer from &lt;!channel&gt;. In trouble since 2"
    )
    assert helps.startswith("`cronlease explain tick`")
    assert status == "Status: https://here.example/status"
    assert recovered.startswith("tick is well again. It had been in trouble since 2")
    assert pending(room) == 0
    assert {each.path for each in webhook.asked} == {KEY}
    ((address,),) = room.query("select string_agg(distinct address, ' ') from refresh_alerts") or ((None,),)
    assert address is None


def test_a_skip_looks_for_nothing(room: Room, webhook: Monitor) -> None:
    enter(room, fail, webhook, alert_url="")
    room.query("update refresh_schedule set late_at = clock_timestamp(), next_run_at = clock_timestamp() + '1 h'")
    assert room.enter(succeed, alert_url=webhook.url(KEY)).skipped is SkipReason.NOT_DUE
    assert webhook.asked == []


def test_the_alert_about_the_breaker_says_when_the_probe_is(room: Room, webhook: Monitor) -> None:
    rule: dict[str, Any] = {"pause_after": "2", "probe": "1h"}
    for _ in range(2):
        outcome = enter(room, fail, webhook, **rule)
    skipped = room.enter(succeed, alert_url=webhook.url(KEY), **rule)
    assert (skipped.skipped, skipped.next_run_at) == (SkipReason.BREAKER_OPEN, outcome.next_run_at)
    assert skipped.as_json()["next_run_at"] is not None
    assert heads(webhook) == ["tick is failing", "tick is stopped by its breaker after 2 runs in a row failed"]
    assert "`cronlease schedule resume tick`" in texts(webhook)[1]
    assert enter(room, succeed, webhook, **rule).status is Status.SUCCESS
    assert heads(webhook)[2:] == ["tick is well again"]


def test_a_run_that_took_too_long_counts_for_the_breaker(room: Room, webhook: Monitor) -> None:
    async def linger(run: Run) -> None:
        await asyncio.sleep(30)

    assert enter(room, linger, webhook, pause_after="1", max_run="0.3s").failed is FailReason.DEADLINE
    assert heads(webhook) == ["tick is stopped by its breaker after one run failed"]


def test_a_run_after_an_abandoned_one_tells_before_its_job_starts(room: Room, webhook: Monitor) -> None:
    seen: list[list[str]] = []

    async def look(run: Run) -> None:
        seen.append(heads(webhook))

    room.enter(succeed)
    room.query("select acquire_refresh_lock('tick', gen_random_uuid(), p_force => true)")
    room.query("update refresh_schedule set locked_until = clock_timestamp() - interval '1 s'")
    assert enter(room, look, webhook).status is Status.SUCCESS
    assert seen == [["tick was abandoned"]]
    assert heads(webhook) == ["tick was abandoned", "tick is well again"]


def dispatcher(room: Room, webhook: Monitor, **environment: str) -> tuple[dict[str, Job], Database, Any]:
    given = {"CRONLEASE_DISPATCH_PAUSE": "0s", "CRONLEASE_ALERT_URL": webhook.url(KEY)}
    settings = load(given)
    return {"note": Job.of(succeed, settings, name="note", has_row=False)}, Database(room.dsn), settings


@pytest.mark.parametrize("trigger", ["run_due", "worker"])
def test_a_dispatcher_also_alerts_late_rows_that_it_cannot_run(room: Room, webhook: Monitor, trigger: str) -> None:
    with psycopg.connect(room.dsn, autocommit=True) as conn:
        schedule_action(conn, "of another", "elsewhere", delay=timedelta(0))
    room.query("update refresh_schedule set late_at = clock_timestamp(), next_run_at = next_run_at - interval '1 h'")

    async def look() -> None:
        jobs, database, settings = dispatcher(room, webhook)
        try:
            if trigger == "worker":
                await step(Worker(jobs, database, settings))
            else:
                await Dispatcher(jobs, database, settings).run_due()
        finally:
            await database.close()

    for _ in range(2):
        asyncio.run(look())
    assert heads(webhook) == ["of another is late"]


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "_AWAITED", timedelta(seconds=0.5))
    monkeypatch.setattr(alert, "_ANSWER_SECONDS", 1.0)


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (error, "it answered 500"),
        (redirect, "it answered 302"),
        (garbage, "BadStatusLine"),
        (close, "RemoteDisconnected"),
        (silence, "it did not answer in time"),
        (drip, "it did not answer in time"),
        (None, "[Errno 111] Connection refused"),
    ],
)
def test_a_webhook_that_is_ill_costs_a_run_little_time_and_the_alert_waits(
    room: Room,
    webhook: Monitor,
    behave: Behave | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hurry(monkeypatch)
    caplog.set_level(logging.WARNING)
    url = webhook.url(KEY) if behave is not None else f"http://127.0.0.1:9{KEY}"
    webhook.behave = behave or ok

    async def hit() -> Outcome:
        outcome = await room.hit(fail, force=True, alert_url=url)
        # Until it is known what became of the alert.
        await asyncio.wait(alerts._deliveries or {asyncio.ensure_future(asyncio.sleep(0))}, timeout=15)
        return outcome

    began = time.monotonic()
    outcome = asyncio.run(hit())
    assert time.monotonic() - began < 10
    assert (outcome.status, outcome.failed) == (Status.FAILED, FailReason.FAILED)
    warnings = [each.getMessage() for each in caplog.records if "An alert" in each.getMessage()]
    # On a busy machine it may be given up before it is known what ails it.
    assert [each.partition("127.0.0.1: ")[2] for each in warnings] in ([said], ["it did not answer in time"])
    assert KEY.rpartition("/")[2] not in caplog.text
    assert pending(room) == 1

    webhook.behave = ok
    webhook.asked.clear()
    retry_now(room)
    # The database was closed under a delivery that took long: then the alert is held a little longer.
    enter(room, fail, webhook, alert_url=url if behave is not None else webhook.url(KEY))
    if behave is not None:
        assert heads(webhook) == ["tick is failing"]
        assert pending(room) == 0


def test_an_answer_that_comes_late_still_counts(
    room: Room, webhook: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "_AWAITED", timedelta(seconds=0.3))
    asked = asyncio.Event()

    def take_time(handler: Any) -> None:
        webhook.over.wait(1)
        ok(handler)

    webhook.behave = take_time

    async def hit() -> None:
        database = Database(room.dsn)
        settings = load({"CRONLEASE_ALERT_URL": webhook.url(KEY)})
        try:
            began = time.monotonic()
            await alerts.deliver(database, settings)
            assert time.monotonic() - began < 0.9, "a run waits no longer"
            asked.set()
            await asyncio.wait(set(alerts._deliveries), timeout=15)
        finally:
            await database.close()

    room.enter(fail, alert_url="")
    room.query("update refresh_schedule set told = '{}', late_at = clock_timestamp(), next_run_at = null")
    asyncio.run(hit())
    assert heads(webhook) == ["tick is late"]
    assert pending(room) == 0
    retry_now(room)
    asyncio.run(asyncio.wait_for(_look_again(room, webhook), 15))
    assert len(webhook.asked) == 1


async def _look_again(room: Room, webhook: Monitor) -> None:
    database = Database(room.dsn)
    try:
        await alerts.deliver(database, load({"CRONLEASE_ALERT_URL": webhook.url(KEY)}))
    finally:
        await database.close()


def test_each_address_gets_the_alert_and_one_that_is_down_delays_no_other(
    room: Room, webhook: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    both = f"{webhook.url('/one-of-two-addresses')}, http://127.0.0.1:9/gone-0123456789"
    enter(room, fail, webhook, alert_url=both)
    assert heads(webhook) == ["tick is failing"]
    assert pending(room) == 1
    enter(room, succeed, webhook, alert_url=both)
    assert heads(webhook) == ["tick is failing", "tick is well again"]
    assert pending(room) == 2


def test_nothing_is_sent_after_its_time(room: Room, webhook: Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that stood still may no longer hold what it was given."""
    enter(room, fail, webhook, alert_url="http://127.0.0.1:9/")
    room.query("update refresh_alerts set held_until = null, address = ''")
    monkeypatch.setattr(alerts, "name_of", lambda _: "")
    monkeypatch.setattr(alerts, "_AWAITED", timedelta(seconds=2))
    clock = iter([0.0])
    monkeypatch.setattr(alerts, "time", SimpleNamespace(monotonic=lambda: next(clock, 100.0)))
    asyncio.run(_look_again(room, webhook))
    monkeypatch.undo()
    assert (webhook.asked, pending(room)) == ([], 1)
    assert room.query("select tries, held_until from refresh_alerts") == [(1, None)]


def test_a_database_that_is_gone_is_no_error_of_the_run(room: Room, webhook: Monitor) -> None:
    async def drop(run: Run) -> None:
        room.query("alter function claim_refresh_alerts(text[], uuid, integer) rename to gone")

    assert enter(room, drop, webhook).status is Status.SUCCESS


def test_a_cron_is_late_after_twice_its_interval(room: Room) -> None:
    after = f"select late_at - next_run_at from refresh_schedule where function_name = '{NAME}'"
    room.enter(succeed, cron="0 */3 * * *")
    assert room.query(after) == [(timedelta(hours=6),)], "as it is planned"
    room.query(
        "update refresh_schedule set slot_at = slot_at - interval '3 h', next_run_at = next_run_at - interval '3 h',"
        " last_slot_at = null, last_success_slot_at = null"
    )
    assert room.enter(succeed, cron="0 */3 * * *").status is Status.SUCCESS
    assert room.query(after) == [(timedelta(hours=6),)], "as it goes on"


def test_the_wait_for_a_webhook_fits_into_the_last_words_of_a_process() -> None:
    assert alerts._AWAITED.total_seconds() < shutdown._LAST_WORDS_SECONDS
    assert alert._ANSWER_SECONDS + alerts._AWAITED.total_seconds() < 30, "and all of it into the time that it is held"


def test_a_worker_that_is_idle_looks_from_time_to_time(room: Room, webhook: Monitor) -> None:
    looked: list[float] = []

    async def steps() -> None:
        jobs, database, settings = dispatcher(room, webhook)
        worker = Worker(jobs, database, settings)
        look = worker._dispatcher._database.ask

        async def ask(query: Any) -> Any:
            if "claim_refresh_alerts" in query.text:
                looked.append(time.monotonic())
            return await look(query)

        database.ask = ask  # type: ignore[method-assign]
        try:
            for _ in range(3):
                await step(worker)
        finally:
            await database.close()

    asyncio.run(steps())
    assert len(looked) == 1
