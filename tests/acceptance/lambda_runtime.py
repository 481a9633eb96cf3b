"""AWS Lambda on loopback: a runtime API, which the real runtime client, awslambdaric, polls for invocations."""

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

from tests.acceptance.conftest import clean_environment, kill
from tests.require import need_package

ROOT = Path(__file__).parents[2]


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
def on_lambda(dsn: str, handler: str, tmp_path: Path) -> Iterator[Runtime]:
    """The handler of that dotted name, in the process that Lambda would run it in."""
    need_package("awslambdaric")
    runtime = Runtime()
    thread = threading.Thread(target=runtime.serve_forever, daemon=True)
    thread.start()
    environment = clean_environment(
        DATABASE_URL=dsn,
        CRONLEASE_AUTH="iam",
        AWS_LAMBDA_FUNCTION_NAME="tick",
        AWS_LAMBDA_RUNTIME_API=f"127.0.0.1:{runtime.server_port}",
        PYTHONPATH=f"{ROOT}:{ROOT / 'functions'}",
    )
    with (tmp_path / "lambda.log").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "awslambdaric", handler],
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
