"""Invocations as Lambda makes them: the real runtime client, awslambdaric, polls a runtime API on loopback."""

import json
import queue
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import clean_environment, kill
from tests.integration.conftest import Room
from tests.require import need_package

ROOT = Path(__file__).parents[2]
RULE = {
    "version": "0",
    "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa",
    "detail-type": "Scheduled Event",
    "source": "aws.events",
    "account": "123456789012",
    "time": "2026-10-08T16:53:06Z",
    "region": "us-east-1",
    "resources": ["arn:aws:events:us-east-1:123456789012:rule/my-scheduled-rule"],
    "detail": {},
}
SCHEDULE = "arn:aws:scheduler:us-east-1:123456789012:schedule/default/tick"


class Runtime(ThreadingHTTPServer):
    """The runtime API: hands out one invocation at a time, and keeps what the client posts."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Api)
        self.waiting: queue.Queue[tuple[str, Any, float]] = queue.Queue()
        self.answers: queue.Queue[tuple[str, str, Any]] = queue.Queue()

    def invoke(self, event: Any, *, seconds: float = 60) -> tuple[str, Any]:
        """What the client posted for this invocation: ("response" or "error", its body)."""
        request_id = str(uuid.uuid4())
        self.waiting.put((request_id, event, seconds))
        answered, kind, body = self.answers.get(timeout=45)
        assert answered == request_id, body
        return kind, body


class _Api(BaseHTTPRequestHandler):
    server: Runtime
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert self.path == "/2018-06-01/runtime/invocation/next"
        request_id, event, seconds = self.server.waiting.get()
        body = json.dumps(event).encode()
        self.send_response(200)
        self.send_header("Lambda-Runtime-Aws-Request-Id", request_id)
        self.send_header("Lambda-Runtime-Deadline-Ms", str(int((time.time() + seconds) * 1000)))
        self.send_header("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:123456789012:function:tick")
        self.send_header("Lambda-Runtime-Trace-Id", "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"null")
        request_id, kind = self.path.split("/")[-2:]
        self.server.answers.put((request_id, kind, body))
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def on_lambda(room: Room, handler: str, tmp_path: Path) -> Iterator[Runtime]:
    need_package("awslambdaric")
    runtime = Runtime()
    thread = threading.Thread(target=runtime.serve_forever, daemon=True)
    thread.start()
    environment = clean_environment(
        DATABASE_URL=room.dsn,
        CRONLEASE_AUTH="iam",
        AWS_LAMBDA_FUNCTION_NAME="tick",
        AWS_LAMBDA_RUNTIME_API=f"127.0.0.1:{runtime.server_port}",
        PYTHONPATH=f"{ROOT}:{ROOT / 'functions'}",
    )
    with (tmp_path / "lambda.log").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "awslambdaric", f"tests.acceptance.on_lambda.{handler}"],
            env=environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield runtime
    finally:
        kill(process)
        runtime.shutdown()
        thread.join()
        runtime.server_close()


@pytest.fixture
def room(dsn: str) -> Room:
    room = Room(dsn)
    room.query("create table effect (request_id uuid)")
    return room


def test_an_invocation_is_a_hit_and_a_failed_run_is_a_failed_invocation(room: Room, tmp_path: Path) -> None:
    with on_lambda(room, "tick", tmp_path) as runtime:
        kind, ran = runtime.invoke(RULE)
        assert (kind, ran["status"], ran["function"]) == ("response", "success", "tick")
        kind, skipped = runtime.invoke(RULE)
        assert (kind, skipped["reason"]) == ("response", "not_due")
        scheduled = {"schedule_arn": SCHEDULE, "scheduled_time": "2026-10-08T18:00:00+02:00", "force": True}
        assert runtime.invoke({**scheduled, "args": {"sleep": 0}})[1]["status"] == "success"
        kind, failed = runtime.invoke({**scheduled, "args": {"fail": "no luck"}})
        assert (kind, failed["errorType"]) == ("error", "RunFailed")
        assert "ValueError: no luck" in failed["errorMessage"]
        kind, refused = runtime.invoke({"speed": 9})
        assert (kind, refused["errorType"], "'speed' is no part" in refused["errorMessage"]) == (
            "error",
            "ValueError",
            True,
        )
    assert room.query("select trigger, job_name, schedule_time, status from refresh_runs order by fence") == [
        ("eventbridge", RULE["resources"][0], "2026-10-08T16:53:06Z", "success"),  # type: ignore[index]
        ("eventbridge", SCHEDULE, "2026-10-08T18:00:00+02:00", "success"),
        ("eventbridge", SCHEDULE, "2026-10-08T18:00:00+02:00", "failed"),
    ]


@pytest.mark.parametrize("handler", ["tick", "tock"])
def test_the_end_of_a_run_is_written_before_the_invocation_s_time_is_up(
    room: Room, tmp_path: Path, handler: str
) -> None:
    """Also of a plain function, which cannot be cancelled."""
    with on_lambda(room, handler, tmp_path) as runtime:
        # The imports are no part of an invocation's time.
        assert runtime.invoke({"force": True})[0] == "response"
        kind, cut_off = runtime.invoke({"force": True, "args": {"sleep": 30}}, seconds=8)
        assert (kind, "deadline" in cut_off["errorMessage"]) == ("error", True)
    ((status, took, free),) = room.query(
        "select r.status, extract(epoch from finished_at - started_at)::float, locked_by is null from refresh_runs r"
        " join refresh_schedule s using (function_name) order by r.fence desc limit 1"
    )
    assert (status, free) == ("failed", True)
    assert took < 8
