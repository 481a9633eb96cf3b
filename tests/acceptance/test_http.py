"""The HTTP contract, as a person with curl or Cloud Scheduler meets it."""

import signal
import socket
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.acceptance.conftest import Serve, Served, serving
from tests.conftest import Server
from tests.integration.conftest import Room, wait_until

SCHEDULER = {
    "User-Agent": "Google-Cloud-Scheduler",
    "X-CloudScheduler": "true",
    "X-CloudScheduler-JobName": "refresh",
    "X-CloudScheduler-ScheduleTime": "2026-11-16T12:00:00Z",
    "Content-Type": "application/octet-stream",
}


@pytest.fixture(scope="module")
def one_room(embedded_server: Server) -> Iterator[Room]:
    """One database and one function for the whole file: each test finds it as if it had never been hit."""
    name = embedded_server.migrated()
    room = Room(embedded_server.url(name))
    room.query("create table effect (request_id uuid)")
    yield room
    embedded_server.drop(name)


@pytest.fixture(scope="module")
def one_function(one_room: Room) -> Iterator[Served]:
    with serving() as serve:
        yield serve(one_room.dsn, CRONLEASE_LOG_LEVEL="DEBUG")


@pytest.fixture
def room(one_room: Room) -> Room:
    one_room.query("truncate refresh_schedule, refresh_runs, effect")
    return one_room


@pytest.fixture
def served(one_function: Served, room: Room) -> Served:
    return one_function


def test_a_run_a_skip_a_forced_run_and_a_failure(served: Served, room: Room) -> None:
    ran = served.hit().json()
    assert {key: ran[key] for key in ("ok", "skipped", "reason", "function", "status", "fetched", "inserted")} == {
        "ok": True,
        "skipped": False,
        "reason": None,
        "function": "tick",
        "status": "success",
        "fetched": 1,
        "inserted": 1,
    }
    assert {"updated", "unchanged", "closed", "next_run_at", "duration_ms", "request_id"} <= set(ran)
    skipped = served.hit().json()
    assert (skipped["ok"], skipped["skipped"], skipped["reason"]) == (True, True, "not_due")
    assert skipped["next_run_at"] == ran["next_run_at"]
    assert '{"force": true}' in skipped["hint"]
    assert served.force()["status"] == "success"
    failed = served.hit(json={"force": True, "args": {"fail": "no luck"}})
    assert failed.status_code == 500
    body = failed.json()
    assert (body["ok"], body["status"], body["reason"], body["error"]) == (
        False,
        "failed",
        "failed",
        "ValueError: no luck",
    )
    # The platform's retry of it must not stack on our backoff.
    assert served.hit(headers=SCHEDULER).json()["reason"] == "not_due"


def test_every_answer_carries_a_request_id_of_its_own(served: Served) -> None:
    seen = set()
    for method, path in [
        ("POST", "/"),
        ("GET", "/"),
        ("GET", "/nowhere"),
        ("GET", "/health/ready"),
        ("GET", "/status"),
    ]:
        response = served.hit(path, method=method)
        assert response.json()["request_id"] == response.headers["X-Request-Id"]
        seen.add(uuid.UUID(response.headers["X-Request-Id"]))
    assert len(seen) == 5


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (b'{"force": 1}', 400, "force"),
        (b'{"force": "true"}', 400, "force"),
        (b'{"args": [1]}', 400, "args"),
        (b'{"args": {"a": "\\u0000"}}', 400, "args"),
        (b'{"args": {"a": "\\ud800"}}', 400, "args"),
        (b'{"args": {"a": 1e999}}', 400, "args"),
        (b'{"args": {"a": NaN}}', 400, "not JSON"),
        (b'{"args": {"a": 0.12345678901234567890}}', 400, "more digits than a number can have here"),
        (b'{"args": {"a": ' + b"1" * 60_000 + b"}}", 400, "(a number in it has more than 4300 digits)"),
        (b'{"speed": 9}', 400, "speed"),
        (b"{", 400, "not JSON"),
        (b"\xff\xfe", 400, "not JSON"),
        (b"[]", 400, "must be a JSON object"),
        (b"null", 400, "must be a JSON object"),
        (b"[" * 60_000, 400, "not JSON"),
        (b'{"args": {"a": "' + b"x" * 65_536 + b'"}}', 413, "65536"),
    ],
)
def test_a_body_that_is_not_ours_is_refused_and_nothing_is_touched(
    served: Served, room: Room, content: bytes, status: int, said: str
) -> None:
    response = served.hit(content=content)
    body = response.json()
    assert response.status_code == status
    assert (body["ok"], body["skipped"]) == (False, False)
    assert said in body["error"]
    assert "\n" not in body["error"]
    assert room.query("select count(*) from refresh_schedule") == [(0,)]


def test_a_large_body_is_refused_even_when_its_length_is_not_announced(served: Served) -> None:
    def endless() -> Any:
        for _ in range(100):
            yield b"x" * 1024

    assert served.hit(content=endless()).status_code == 413


HALF = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 20\r\n\r\n{"


@pytest.mark.thorough
def test_a_body_that_never_comes_is_not_waited_for_and_does_not_delay_the_end(serve: Serve, dsn: str) -> None:
    served = serve(dsn)
    place = urlsplit(served.url)
    address = (str(place.hostname), int(place.port or 0))
    with socket.create_connection(address) as gone:
        gone.sendall(HALF)
    with socket.create_connection(address, timeout=15) as slow:
        slow.sendall(HALF)
        wait_until(lambda: "hung up" in served.log_file.read_text())
        served.process.send_signal(signal.SIGTERM)
        answer = slow.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"body_too_slow" in answer
        served.process.wait(10)
    assert not [line for line in served.log() if line["severity"] == "ERROR"]


@pytest.mark.parametrize("content", [b"", b"  \n", b"{}", b'{"force": false, "args": {}}'])
def test_an_empty_body_is_a_plain_hit_whatever_its_type_says(served: Served, content: bytes) -> None:
    for kind in ("application/octet-stream", "text/plain", "application/x-www-form-urlencoded"):
        assert served.hit(content=content, headers={"Content-Type": kind}).json()["ok"]


def test_other_methods_and_paths_are_told_what_to_use(served: Served) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
        response = served.hit(method=method)
        assert (response.status_code, response.headers["Allow"]) == (405, "POST")
        assert "curl -X POST <url>/" in response.json()["error"]
        assert response.json()["reason"] == "method_not_allowed"
    assert served.hit("/health/live").headers["Allow"] == "GET, HEAD"
    missing = served.hit("/admin")
    assert (missing.status_code, missing.json()["reason"]) == (404, "not_found")


def test_health_and_status_answer(served: Served) -> None:
    assert served.hit("/health/live", method="GET").json()["live"] is True
    assert served.hit("/health/ready", method="GET").json()["ready"] is True
    served.force()
    status = served.hit("/status", method="GET").json()
    assert [(row["function_name"], row["state"]) for row in status["schedules"]] == [("tick", "pending")]
    assert [row["status"] for row in status["runs"]] == ["success"]


def test_the_trigger_is_recorded_as_it_was_sent_and_decides_nothing(served: Served, room: Room) -> None:
    served.hit(headers={**SCHEDULER, "X-CloudScheduler-ScheduleTime": "whenever, 2999"})
    assert served.hit(headers=SCHEDULER).json()["reason"] == "not_due"
    served.force()
    recorded = room.query("select trigger, job_name, schedule_time from refresh_runs order by fence")
    assert recorded == [("cloud_scheduler", "refresh", "whenever, 2999"), ("manual", None, None)]


def test_each_skip_logs_one_json_line(served: Served) -> None:
    served.hit()
    request_id = served.hit().json()["request_id"]
    line = served.logged(request_id=request_id)
    assert (line["severity"], line["action"], line["reason"]) == ("DEBUG", "run_skipped", "not_due")
    assert line["function"] == "tick"


def test_a_plain_function_with_times_of_its_own_is_as_short(serve: Serve, room: Room) -> None:
    tock = serve(room.dsn, target="tock", CRONLEASE_EVERY="1s..2s")
    assert tock.hit().json()["status"] == "success"
    assert room.query("select next_run_at > now() + interval '59 min' from refresh_schedule") == [(True,)]
