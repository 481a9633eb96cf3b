"""A database in trouble under a run: never two real runs, never a hung request, never a lost next_run_at."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.conftest import Serve, Served
from tests.faults.crashing import Base, Crashing, base_of
from tests.faults.scene import OPENINGS, Hit, Point, Scene, until_it_runs
from tests.integration.conftest import Room, wait_until

pytestmark = pytest.mark.thorough

HELD = "select 1 from refresh_schedule where locked_by is not null"
SCHEDULE = "select locked_by, last_status, next_run_at > clock_timestamp() from refresh_schedule"


@pytest.fixture
def base(crashing: Crashing) -> Iterator[Base]:
    with base_of(crashing) as base:
        yield base


def outcome(room: Room) -> tuple[list[str], int]:
    """How the runs ended, and how many of them have left their row."""
    return room.runs(), len(room.query("select distinct request_id from effect"))


def test_down_at_the_start_and_restarted_in_the_midst_of_runs_it_costs_no_run(serve: Serve, base: Base) -> None:
    base.stop()
    served = serve(base.proxy.dsn, CRONLEASE_LEASE="5s")
    answer = served.hit()
    assert (answer.status_code, answer.json()["reason"]) == (200, "schedule_read_error")
    base.start()
    assert served.hit().json()["status"] == "success"
    # In order, and by a crash: the run reconnects, keeps its lease and commits once.
    for number, how in enumerate((signal.SIGINT, signal.SIGQUIT), start=2):
        hit = Hit(served, force=True, args={"sleep": 1})
        wait_until(lambda: bool(base.room.query(HELD)))
        base.restart(how)
        assert hit.answer()[1]["status"] == "success"
        assert outcome(base.room) == (["success"] * number, number)
    assert base.room.query(SCHEDULE) == [(None, "success", True)]


SLOW = """
create function slowly() returns trigger language plpgsql as $$ begin perform pg_sleep(1.5); return new; end $$;
create trigger slow_claim before insert on refresh_runs for each row execute function slowly()
"""


def late_claim(serve: Serve, dsn: str, acquire_timeout: str) -> list[str]:
    """What is broken where the database takes longer for a claim than a hit has: half a second, say."""
    room = Room(dsn)
    room.query(f"create table effect (request_id uuid); {SLOW}")
    served = serve(dsn, CRONLEASE_LEASE="2s", CRONLEASE_ACQUIRE_TIMEOUT=acquire_timeout)
    began = time.monotonic()
    answer = served.hit().json()
    took = time.monotonic() - began
    effects = room.query("select request_id from effect")
    # Whatever has become of the claim in the server, the next hits get their run from there.
    room.query("drop trigger slow_claim on refresh_runs")
    until_it_runs(lambda: served.hit(json={"force": True}).json(), 10)
    statuses, rows = outcome(room)
    checks = {
        "it is a skip": answer["reason"] == "schedule_read_error",
        "it is answered in time": took < 1.5,
        "nothing was run": effects == [],
        "each success is there once": statuses.count("success") == rows,
        "the last one ended well": statuses[-1] == "success",
    }
    return [check for check, holds in checks.items() if not holds]


def test_a_claim_that_is_granted_too_late_is_a_skip_in_time_and_is_not_run(serve: Serve, dsn: str) -> None:
    assert late_claim(serve, dsn, "0.5s") == []


def test_a_hit_that_waits_for_such_a_claim_is_seen(serve: Serve, dsn: str) -> None:
    """The negative control."""
    assert late_claim(serve, dsn, "2s") == ["it is a skip", "it is answered in time", "nothing was run"]


FULL = """
create function full() returns trigger language plpgsql
as $$ begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$;
create trigger disk_full before insert or update on opening_signals
for each row when (new.external_id = '30') execute function full()
"""


def full_disk(scene: Scene, served: Served) -> list[str]:
    assert served.hit().json()["status"] == "success"
    before = scene.batch()
    scene.make_due()
    scene.room.query(FULL)
    try:
        response = served.hit()
    finally:
        scene.room.query("drop function full cascade")
    checks = {
        "it is a failure": (response.status_code, response.json()["status"]) == (500, "failed"),
        "the error says why": "No space left on device" in response.json()["error"],
        "nothing was written": scene.batch() == before,
        "it costs a backoff": scene.row("locked_by, last_status, next_run_at > clock_timestamp()")
        == (None, "failed", True),
    }
    scene.make_due()
    checks["the next one writes"] = served.hit().json()["status"] == "success"
    return [check for check, holds in checks.items() if not holds]


def test_a_full_disk_in_the_midst_of_the_merge_costs_a_backoff_and_writes_nothing(scene: Scene) -> None:
    assert full_disk(scene, scene.other) == []


def test_a_job_that_writes_half_of_it_before_is_seen(scene: Scene) -> None:
    """The negative control."""
    naive = scene.start(scene.room.dsn, Path(__file__).with_name("halves.py"))
    scene.reset()
    assert full_disk(scene, naive) == ["nothing was written"]


def read_only(scene: Scene, word: str) -> None:
    """For every new session; those that are open end."""
    ((name,),) = scene.room.query("select current_database()")
    with psycopg.connect(scene.room.dsn, autocommit=True, options="-c default_transaction_read_only=off") as conn:
        conn.execute(f"alter database {name} set default_transaction_read_only = {word}")
    scene.proxy.cut()


def test_a_server_that_turns_read_only_under_a_run_is_written_by_the_next(scene: Scene) -> None:
    point = Point(scene, "fetching")
    hit = Hit(scene.victim)
    point.wait()
    read_only(scene, "on")
    try:
        point.release()
        status, answer = hit.answer()
        assert (status, answer["ok"]) in ((500, False), (409, False))
        assert scene.victim.hit().json()["skipped"]
    finally:
        read_only(scene, "off")
    # Nothing could be written, not even that the run was over: its lease runs out.
    assert until_it_runs(lambda: scene.victim.hit().json(), 10)["status"] == "success"
    assert sorted(scene.runs().values()) == ["abandoned", "success"]
    assert scene.batch() == (OPENINGS, [f"Baker {scene.feed.asked}"])
