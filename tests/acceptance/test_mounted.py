"""cronlease.asgi() in other people's applications, each in a real process of its own; and `cronlease serve`."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from cronlease.cli.commands.serve import server_of
from cronlease.process.shutdown import process
from cronlease.settings import load
from tests.acceptance.conftest import JOBS, Served, clean_environment, client, running
from tests.integration.conftest import Room, wait_until
from tests.require import need_package

ROOT = Path(__file__).parents[2]
HOSTS = {"starlette": (), "fastapi": ("fastapi",), "litestar": ("litestar",), "django": ("django",)}
Start = Callable[..., Served]


@pytest.fixture
def room(dsn: str) -> Room:
    room = Room(dsn)
    room.query("create table effect (request_id uuid)")
    return room


@pytest.fixture
def start(room: Room) -> Iterator[Start]:
    """Starts a server that is not functions-framework."""
    with ExitStack() as stack:

        def run(module: list[str], alive: str = "/hello", **environment: str) -> Served:
            environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'functions'}", **environment}
            return stack.enter_context(running([sys.executable, "-m", *module], room.dsn, alive, **environment))

        yield run


def under_uvicorn(start: Start, host: str, **environment: str) -> Served:
    for package in HOSTS[host]:
        need_package(package)
    return start(["uvicorn", "tests.acceptance.hosts:app", "--port", "PORT"], TEST_HOST=host, **environment)


def check_mounted(served: Served, room: Room) -> None:
    """What is true at each mount path, whoever the host is."""
    ran = served.hit("/cron/tick", json={"args": {"sleep": 0}})
    assert (ran.status_code, ran.json()["status"], ran.json()["function"]) == (200, "success", "tick")
    assert ran.headers["X-Request-Id"] == ran.json()["request_id"]
    assert served.hit("/cron/tick").json()["reason"] == "not_due"
    assert served.hit("/tick/", json={"force": True}).json()["status"] == "success"
    assert served.hit("/cron/tell").json()["function"] == "tell"
    assert [run["function"] for run in served.hit("/cron/run-due").json()["ran"]] == ["tock"]
    assert served.hit("/cron/status", method="GET").json()["ok"] is True
    assert served.hit("/cron/health/ready", method="GET").json()["ready"] is True
    several = served.hit("/cron/")
    assert (several.status_code, "POST /cron/<function>" in several.json()["error"]) == (404, True)
    nowhere = served.hit("/cron/nowhere")
    assert (nowhere.status_code, "/cron/run-due" in nowhere.json()["error"]) == (404, True)
    looked = served.hit("/cron/tick", method="GET")
    assert (looked.status_code, looked.headers["Allow"]) == (405, "POST")
    assert "curl -X POST <url>/cron/tick" in looked.json()["error"]
    assert served.hit("/cron/tick", content=b"x" * 70_000).status_code == 413
    assert served.hit("/cron/tick", headers={"X-Cronlease-Spawned": "1"}).json()["reason"] == "spawned"
    assert len(room.query("select 1 from effect")) == 3


@pytest.mark.parametrize("host", HOSTS)
def test_it_can_be_mounted_in_any_asgi_application(start: Start, room: Room, host: str) -> None:
    served = under_uvicorn(start, host)
    check_mounted(served, room)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(15) in (0, -signal.SIGTERM)


def test_it_can_be_mounted_under_wsgi(start: Start, room: Room) -> None:
    need_package("a2wsgi")
    serving = ["gunicorn", "tests.acceptance.hosts:app", "--bind", "127.0.0.1:PORT", "--threads", "4"]
    served = start(serving, TEST_HOST="flask")
    check_mounted(served, room)


class Slow(threading.Thread):
    """A hit whose run takes its time, on its way while the test goes on."""

    def __init__(self, served: Served, room: Room, path: str, seconds: float) -> None:
        super().__init__(daemon=True)
        self._served, self._path, self._seconds = served, path, seconds
        self.answer: tuple[int, str] | None = None
        self.start()
        wait_until(lambda: bool(room.query("select 1 from refresh_schedule where locked_by is not null")))

    def run(self) -> None:
        response = self._served.hit(self._path, json={"args": {"sleep": self._seconds}})
        self.answer = response.status_code, response.json()["status"]


@pytest.mark.parametrize("host", ["starlette", "fastapi"])
def test_a_host_that_is_told_to_stop_stops_as_ever_and_our_runs_drain(start: Start, room: Room, host: str) -> None:
    """Starlette's mount gets no lifespan, so the signal alone does it; FastAPI's is given ours."""
    served = under_uvicorn(start, host, CRONLEASE_DRAIN_SECONDS="3")
    finishes = Slow(served, room, "/cron/tick", 1)
    served.process.send_signal(signal.SIGTERM)
    # The host's own handler was called: it listens no more, while the run goes on.
    wait_until(lambda: refuses_connections(served), 10)
    finishes.join(20)
    assert finishes.answer == (200, "success")
    assert served.process.wait(15) == -signal.SIGTERM
    assert room.runs() == ["success"]
    assert ("the host's lifespan ended" in served.log_file.read_text()) == (host == "fastapi")
    assert idle(room)


@pytest.mark.thorough
def test_a_run_that_cannot_finish_is_interrupted_in_a_host_too(start: Start, room: Room) -> None:
    served = under_uvicorn(start, "starlette", CRONLEASE_DRAIN_SECONDS="0.5")
    slow = Slow(served, room, "/cron/tick", 60)
    served.process.send_signal(signal.SIGTERM)
    slow.join(20)
    assert slow.answer == (503, "interrupted")
    assert served.process.wait(15) == -signal.SIGTERM
    assert room.row("locked_by, last_status") == (None, "interrupted")
    assert idle(room)


def idle(room: Room) -> bool:
    """Whether no connection of ours is left; the server notices a little later."""
    text = "select 1 from pg_stat_activity where application_name = 'cronlease' and datname = current_database()"
    wait_until(lambda: not room.query(text))
    return True


def refuses_connections(served: Served) -> bool:
    try:
        client().get(served.url + "/hello")
    except httpx2.TransportError:
        return True
    return False


def test_serve_is_the_same_without_a_framework(start: Start, room: Room) -> None:
    serving = ["cronlease", "serve", "--source", str(JOBS), "--port", "PORT"]
    served = start(serving, alive="/health/live", CRONLEASE_DRAIN_SECONDS="3")
    line = served.logged(action="serving_started")
    assert f"Serving tick, tock, tell at {served.url} on" in line["message"]
    slow = Slow(served, room, "/tick", 1)
    served.process.send_signal(signal.SIGTERM)
    # As under functions-framework, it says so while it drains.
    wait_until(lambda: served.hit("/health/ready", method="GET").status_code == 503)
    assert served.hit("/tell").json()["reason"] == "shutting_down"
    slow.join(20)
    assert slow.answer == (200, "success")
    assert served.process.wait(15) == 0
    assert idle(room)


def test_serve_answers_a_skip_without_what_a_skip_does_not_need(start: Start, room: Room) -> None:
    """A cold start lasts as long as what it imports."""
    room.query("select ensure_schedule('tell')")
    room.query("update refresh_schedule set next_run_at = now() + interval '1 day'")
    serving = ["cronlease", "serve", "--source", str(JOBS), "--port", "PORT"]
    served = start(serving, alive="/health/live", PYTHONPROFILEIMPORTTIME="1")
    assert served.hit("/tell").json()["reason"] == "not_due"
    lines = [line for line in served.log_file.read_text().splitlines() if line.startswith("import time:")]
    loaded = {line.rpartition("|")[2].strip() for line in lines}
    of_a_run = {f"cronlease.run.{name}" for name in ("ends", "finish", "heartbeat", "supervise")}
    of_other_verbs = {"cronlease.db.migration.migrate", "cronlease.explain", "rich"}
    of_others = {"functions_framework", "pydantic", "starlette", "websockets", "wsproto"}
    seldom = {"difflib", "hashlib", "hmac", "tomllib"}
    assert {"cronlease.triggers.http", "psycopg", "uvicorn.server"} <= loaded
    assert loaded & (of_a_run | of_other_verbs | of_others | seldom) == set()


def test_serve_closes_a_connection_that_sends_no_headers(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", room.dsn)
    server = server_of(load(), header_seconds=0.3)
    monkeypatch.setattr(process, "hook", lambda *_, **__: None)
    with socket.create_server(("127.0.0.1", 0)) as place:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        try:
            address = place.getsockname()
            with socket.create_connection(address, timeout=20) as silent, socket.create_connection(address) as slow:
                slow.settimeout(20)
                slow.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = b""
                while not answer.endswith(b"}\n"):
                    answer += slow.recv(4096)
                assert answer.startswith(b"HTTP/1.1 200")
                # The second request of a connection, too.
                slow.sendall(b"GET /health/live HTTP/1.1\r\nHost:")
                assert silent.recv(4096) == b""
                assert slow.recv(4096) == b""
        finally:
            server.should_exit = True
            thread.join(20)


def test_serve_says_in_one_sentence_that_a_port_is_taken(room: Room) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = subprocess.run(
            [sys.executable, "-m", "cronlease", "serve", "--source", str(JOBS), "--port", port],
            env=clean_environment(DATABASE_URL=room.dsn),
            capture_output=True,
            text=True,
            timeout=30,
        )
    assert ended.returncode == 1
    why = os.strerror(errno.EADDRINUSE)
    assert ended.stderr == f"Error: cannot listen on 127.0.0.1:{port} ({why}): pass --host or --port N\n"
