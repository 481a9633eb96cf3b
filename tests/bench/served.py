"""Functions behind a real HTTP server, each in a process of its own, and a client light enough for them."""

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.bench.side_by_side import ROOT, Bench, children_on

HELLO = """import functions_framework.aio


@functions_framework.aio.http
async def hello(request):
    return "ok"
"""
SELECT_1 = """import functools
import os

import functions_framework.aio
from cronlease.db.connection import Database


@functools.cache
def database():
    return Database(os.environ["DATABASE_URL"])


@functions_framework.aio.http
async def select_1(request):
    async with database().connection() as conn:
        cursor = await conn.execute("select 1")
        await cursor.fetchone()
    return "ok"
"""
REQUEST = b"POST / HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\n\r\n"
# The programs that serve a function. Both take the same options.
FRAMEWORK, SERVE = ("functions-framework",), ("cronlease", "serve")
_START_SECONDS = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(bench: Bench, **more: str) -> dict[str, str]:
    """Ours without what would steer the function or libpq, with the bytecode kept outside the tree."""
    steering = ("PG", "CRONLEASE_", "FUNCTION_", "K_", "PYTHONDONT", "CLOUD_RUN_")
    env = {key: value for key, value in os.environ.items() if not key.startswith(steering) and key != "DEBUG"}
    return env | {
        "DATABASE_URL": bench.url,
        "PYTHONPATH": str(ROOT / "functions"),
        "PYTHONPYCACHEPREFIX": str(bench.place / "bytecode"),
        **more,
    }


class Function(NamedTuple):
    """What is served, and by which program. The word is expected in the body of each of its answers."""

    source: Path
    target: str
    word: str
    served_by: tuple[str, ...] = FRAMEWORK

    def spawn(
        self, port: int, env: Mapping[str, str], log: Path, options: tuple[str, ...] = ()
    ) -> subprocess.Popen[bytes]:
        """Starts it and does not wait for it; the caller stops it."""
        name, *verb = self.served_by
        program = Path(sys.executable).with_name(name)
        found = str(program) if program.exists() else shutil.which(name)
        assert found, f"{name} is not installed beside this Python"
        command = [sys.executable, *options, found, *verb, "--source", str(self.source), "--target", self.target]
        with log.open("wb") as output:
            return subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", str(port)],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def first_answer(self, port: int, process: subprocess.Popen[bytes]) -> None:
        """Posts until it answers. The first answer must be the right one: fail closed is a 200, too."""
        deadline = time.monotonic() + _START_SECONDS
        request = REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), 10) as sock:
                sock.sendall(request)
                _check(b"".join(iter(lambda: sock.recv(65536), b"")), self.word.encode())
                return
            time.sleep(0.001)
        raise RuntimeError("the function did not start: read its log")


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def written(bench: Bench, target: str, text: str) -> Function:
    """A function that is nothing but this text and answers ok."""
    source = bench.place / f"{target}.py"
    source.write_text(text)
    return Function(source, target, "ok")


@contextlib.contextmanager
def serving(
    function: Function, bench: Bench, core: int | None, options: tuple[str, ...] = ()
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A function that has answered: its port and its process. Its log is <target>.log in the bench's directory."""
    port = free_port()
    with children_on(core):
        process = function.spawn(port, environment(bench), bench.place / f"{function.target}.log", options)
    try:
        function.first_answer(port, process)
        yield port, process
    finally:
        stop(process)


def workers_of(pid: int) -> list[int]:
    """The process and its children: gunicorn's master and its worker, or a postmaster and its backends."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [pid, *map(int, children.read_text().split())] if children.exists() else [pid]


def hit(port: int, connections: int, seconds: float, word: bytes) -> tuple[int, float]:
    """Hits as fast as the answers come, one at a time on each keep-alive connection; how many, in how long.

    All hits are answered at the end: none is left to slow down whoever is measured next.
    """
    poll = select.epoll()
    socks, answers = {}, {}
    for _ in range(connections):
        sock = socket.create_connection(("127.0.0.1", port), 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        socks[sock.fileno()], answers[sock.fileno()] = sock, b""
        poll.register(sock.fileno(), select.EPOLLIN)
    answered, waiting, start = 0, connections, time.perf_counter()
    for sock in socks.values():
        sock.sendall(REQUEST)
    while waiting:
        for number, _ in poll.poll(1):
            answers[number] = answer = answers[number] + socks[number].recv(65536)
            if not _is_whole(answer):
                continue
            _check(answer, word)
            answered += 1
            answers[number] = b""
            if time.perf_counter() < start + seconds:
                socks[number].sendall(REQUEST)
            else:
                waiting -= 1
    took = time.perf_counter() - start
    for sock in socks.values():
        sock.close()
    poll.close()
    return answered, took


def _check(answer: bytes, word: bytes) -> None:
    if not answer.startswith(b"HTTP/1.1 200") or word not in answer:
        raise RuntimeError(f"not the expected answer: {answer!r}")


def _is_whole(answer: bytes) -> bool:
    """The server writes head and body apart."""
    head, end, body = answer.partition(b"\r\n\r\n")
    return bool(end) and len(body) >= int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
