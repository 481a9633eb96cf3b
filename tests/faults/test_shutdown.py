"""SIGTERM at real servers: a run may finish, one that cannot is interrupted and due again immediately, and nothing is
left."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from cronlease import schedule_action
from tests.acceptance.conftest import JOBS, Serve, Served, answers, clean_environment, free_port, kill
from tests.acceptance.shell import Shell
from tests.faults.profile import thorough
from tests.integration.conftest import Room, wait_until


@pytest.fixture
def room(dsn: str) -> Room:
    room = Room(dsn)
    room.query("create table effect (request_id uuid)")
    return room


@pytest.fixture(params=["functions-framework", thorough("uvicorn")])
def served(request: pytest.FixtureRequest, serve: Serve, room: Room, tmp_path: Path) -> Iterator[Served]:
    """The function under the framework's own server, and under plain uvicorn."""
    drain = {"CRONLEASE_DRAIN_SECONDS": "1.5"}
    if request.param == "functions-framework":
        yield serve(room.dsn, source=JOBS, **drain)
        return
    port, log = free_port(), tmp_path / "uvicorn.log"
    environment = clean_environment(DATABASE_URL=room.dsn, FUNCTION_SOURCE=str(JOBS), FUNCTION_TARGET="tick", **drain)
    command = [sys.executable, "-m", "uvicorn", "functions_framework.aio:app", "--port", str(port)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
    served = Served(f"http://127.0.0.1:{port}", process, log)
    wait_until(lambda: answers(served), 30)
    yield served
    kill(process)


class Slow(threading.Thread):
    """A hit that takes its time, on its way while the test goes on."""

    def __init__(self, served: Served, room: Room, seconds: float) -> None:
        super().__init__(daemon=True)
        self._served, self._seconds = served, seconds
        self.response: httpx2.Response | None = None
        self.start()
        wait_until(lambda: bool(room.query("select 1 from refresh_schedule where locked_by is not null")))

    def run(self) -> None:
        self.response = self._served.hit(json={"args": {"sleep": self._seconds}})

    def answer(self) -> tuple[int, dict[str, Any]]:
        self.join(20)
        assert self.response is not None
        return self.response.status_code, self.response.json()


def connections(room: Room) -> int:
    ((count,),) = room.query(
        "select count(*) from pg_stat_activity where application_name = 'cronlease' and datname = current_database()"
    )
    return int(count)


def ended_well(served: Served, room: Room) -> None:
    # Plain uvicorn raises the signal again when it is done, as its users expect.
    assert served.process.wait(15) in (0, -signal.SIGTERM), served.log_file.read_text()
    wait_until(lambda: connections(room) == 0, 5)


def test_a_run_that_can_finish_in_time_does_and_new_hits_are_skipped(served: Served, room: Room) -> None:
    slow = Slow(served, room, 1)
    served.process.send_signal(signal.SIGTERM)

    def ready() -> httpx2.Response:
        return served.hit("/health/ready", method="GET")

    wait_until(lambda: ready().status_code == 503)
    assert ready().json()["reason"] == "shutting_down"
    told = served.hit()
    assert (told.status_code, told.json()["skipped"], told.json()["reason"]) == (200, True, "shutting_down")
    assert served.hit("/run-due").json()["reason"] == "shutting_down"
    status, body = slow.answer()
    assert (status, body["status"]) == (200, "success")
    ended_well(served, room)
    assert room.runs() == ["success"]
    assert len(room.query("select 1 from effect")) == 1


def test_a_run_that_cannot_finish_is_interrupted_and_due_immediately(served: Served, room: Room) -> None:
    slow = Slow(served, room, 30)
    served.process.send_signal(signal.SIGTERM)
    status, body = slow.answer()
    assert (status, body["ok"], body["status"], body["reason"]) == (503, False, "interrupted", "interrupted")
    ended_well(served, room)
    row = room.row("locked_by, failures, abandoned, last_status, coalesce(next_run_at <= clock_timestamp(), true)")
    assert row == (None, 0, 0, "interrupted", True)
    assert room.query("select 1 from effect") == []


def test_a_second_signal_hurries_and_still_frees_the_lease(served: Served, room: Room) -> None:
    slow = Slow(served, room, 30)
    served.process.send_signal(signal.SIGTERM)
    wait_until(lambda: served.hit("/health/ready", method="GET").status_code == 503)
    # Of functions-framework the master, as a person or a platform would: it passes no second SIGTERM on.
    served.process.send_signal(signal.SIGINT)
    assert slow.answer()[1]["status"] == "interrupted"
    ended_well(served, room)
    assert room.row("locked_by, last_status") == (None, "interrupted")


def test_an_idle_server_ends_immediately(served: Served, room: Room) -> None:
    assert served.hit().json()["status"] == "success"
    served.process.send_signal(signal.SIGTERM)
    ended_well(served, room)


@pytest.mark.thorough
def test_the_end_is_announced_to_a_balancer_that_only_looks(serve: Serve, room: Room) -> None:
    """It answers all that time and says so, even when it has nothing to do; a run in progress goes on meanwhile."""
    served = serve(room.dsn, source=JOBS, CRONLEASE_ANNOUNCE_SECONDS="1.2")
    slow = Slow(served, room, 0.6)
    served.process.send_signal(signal.SIGTERM)
    told_at = time.monotonic()
    wait_until(lambda: served.hit("/health/ready", method="GET").status_code == 503)
    seen: set[tuple[int, str]] = set()
    last = told_at
    try:
        while time.monotonic() - told_at < 10:
            seen.add((served.hit("/health/ready", method="GET").status_code, served.hit().json()["reason"]))
            last = time.monotonic()
    except httpx2.TransportError:
        pass
    assert seen == {(503, "shutting_down")}
    assert 1.0 < last - told_at < 5
    status, body = slow.answer()
    assert (status, body["status"]) == (200, "success")
    ended_well(served, room)


@pytest.mark.parametrize("verb", ["worker", "run-due"])
@pytest.mark.parametrize("signals", [1, thorough(2)])
def test_the_command_line_ends_as_a_server_does(room: Room, tmp_path: Path, verb: str, signals: int) -> None:
    cronlease = Shell(room.dsn, tmp_path)
    # Longer than the test has patience for, so that the second signal is what ends it.
    cronlease.environment["CRONLEASE_DRAIN_SECONDS"] = "1" if signals == 1 else "300"
    linger = tmp_path / "linger"
    linger.touch()
    with psycopg.connect(room.dsn, autocommit=True) as conn:
        for name in ("first", "second"):
            schedule_action(conn, name, "note", args={"linger": str(linger)})
    with cronlease.start(verb) as process:
        wait_until(lambda: bool(room.query("select 1 from refresh_schedule where locked_by is not null")), 30)
        process.send_signal(signal.SIGTERM)

        def ended() -> bool:
            if signals == 2 and process.poll() is None:
                # Again and again: two that come at once are one.
                process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        wait_until(ended, 20)
    rows = room.query(
        "select locked_by, failures, last_status, next_run_at <= clock_timestamp() from refresh_schedule"
        " where action = 'note'"
    )
    assert sorted(rows, key=str) == [(None, 0, "interrupted", True), (None, 0, None, True)]
    # An interrupted run is no failure. A third signal finds all freed, and ends it.
    assert process.returncode in ([0] if signals == 1 else [0, -signal.SIGTERM])
    assert connections(room) == 0
