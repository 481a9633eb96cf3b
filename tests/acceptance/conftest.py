"""The function as it is deployed: a real functions-framework process, hit over real HTTP."""

import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest

from tests.integration.conftest import Room, wait_until

FUNCTIONS = Path(__file__).parents[2] / "functions"
JOBS = Path(__file__).parent / "jobs.py"


@dataclass
class Served:
    """A running function: its address, its process, and what it has logged."""

    url: str
    process: subprocess.Popen[bytes]
    log_file: Path

    def hit(self, path: str = "/", *, method: str = "POST", **request: Any) -> httpx2.Response:
        return client().request(method, self.url + path, **request)

    def force(self, **args: Any) -> dict[str, Any]:
        body: dict[str, Any] = self.hit(json={"force": True, "args": args}).json()
        return body

    def log(self) -> list[dict[str, Any]]:
        """What it has written so far. A line may come after the answer that it is about: `logged` waits for it."""
        lines = self.log_file.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def logged(self, **fields: Any) -> dict[str, Any]:
        """The only line with these fields, once it is there."""

        def lines() -> list[dict[str, Any]]:
            return [line for line in self.log() if fields.items() <= line.items()]

        wait_until(lambda: bool(lines()))
        (line,) = lines()
        return line


@functools.cache
def client() -> httpx2.Client:
    """One for all hits, each on a connection of its own: making a client costs more than the hit."""
    return httpx2.Client(timeout=30, trust_env=False, limits=httpx2.Limits(max_keepalive_connections=0))


class Serve(Protocol):
    def __call__(self, dsn: str | None, *, target: str = ..., source: Path = ..., **environment: str) -> Served: ...


# A hundred ports for each worker, below those that the system hands out: between the moment a port is found free and
# the moment a server binds it, nobody else may get it.
_FIRST_PORT = 10_000 + os.getpid() % 200 * 100
_ports = cycle(range(_FIRST_PORT, _FIRST_PORT + 100))


def free_port() -> int:
    for port in _ports:
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("a cycle does not end")


def clean_environment(**extra: str) -> dict[str, str]:
    """Ours without what a developer's shell may have set for a database or for us."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CRONLEASE_", "PG", "DATABASE_URL", "K_"))}
    return {**kept, "PYTHONPATH": str(FUNCTIONS), **extra}


def command(target: str, source: Path, port: int | str = "PORT") -> list[str]:
    where = ["--host", "127.0.0.1", "--port", str(port)]
    return [sys.executable, "-m", "functions_framework", "--source", str(source), "--target", target, *where]


@contextmanager
def running(words: list[str], dsn: str | None, alive: str = "/health/live", **environment: str) -> Iterator[Served]:
    """A command as a server, once it answers at that path; in its words, PORT stands for one that is free."""
    port = free_port()
    if dsn is not None:
        environment["DATABASE_URL"] = dsn
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        process = subprocess.Popen(
            [word.replace("PORT", str(port)) for word in words],
            env=clean_environment(**environment),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            served = Served(f"http://127.0.0.1:{port}", process, Path(log.name))
            wait_until(lambda: answers(served, alive), 30)
            yield served
        finally:
            kill(process)


@contextmanager
def serving() -> Iterator[Serve]:
    """Starts functions; they are stopped when the block ends."""
    with ExitStack() as stack:

        def start(dsn: str | None, *, target: str = "tick", source: Path = JOBS, **environment: str) -> Served:
            served = stack.enter_context(running(command(target, source), dsn, **environment))
            stack.callback(stop, served.process)
            return served

        yield start


@pytest.fixture
def serve() -> Iterator[Serve]:
    with serving() as start:
        yield start


def answers(served: Served, path: str = "/health/live") -> bool:
    assert served.process.poll() is None, served.log_file.read_text()
    try:
        return served.hit(path, method="GET").status_code == 200
    except httpx2.TransportError:
        return False


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(15)
    kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends master and worker at once: a worker outlives a master that was killed alone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def room(dsn: str) -> Room:
    return Room(dsn)
