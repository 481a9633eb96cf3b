"""Functions under the real functions-framework, each in a process of its own, and a client light enough for them."""

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

from tests.bench.side_by_side import ROOT, Bench, children_on

HELLO = """import functions_framework.aio


@functions_framework.aio.http
async def hello(request):
    return "hello"
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


def spawn_function(
    source: Path, target: str, port: int, env: Mapping[str, str], log: Path, options: tuple[str, ...] = ()
) -> subprocess.Popen[bytes]:
    """The real functions-framework, at once; the caller stops it."""
    program = Path(sys.executable).with_name("functions-framework")
    found = str(program) if program.exists() else shutil.which("functions-framework")
    assert found, "functions-framework is not installed beside this Python"
    command = [sys.executable, *options, found, "--source", str(source), "--target", target]
    with log.open("wb") as output:
        return subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def first_answer(port: int, process: subprocess.Popen[bytes]) -> bytes:
    """Posts until somebody answers; the whole first answer."""
    deadline = time.monotonic() + _START_SECONDS
    request = b"POST / HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), 10) as sock:
            sock.sendall(request)
            answer = b"".join(iter(lambda: sock.recv(65536), b""))
            assert answer.startswith(b"HTTP/1.1 200"), answer
            return answer
        time.sleep(0.001)
    raise RuntimeError("the function did not start: read its log")


@contextlib.contextmanager
def serving(
    source: Path, target: str, bench: Bench, core: int | None, options: tuple[str, ...] = ()
) -> Iterator[tuple[int, int]]:
    """A running function: its port and its pid. Its log is <target>.log in the bench's directory."""
    port = free_port()
    with children_on(core):
        process = spawn_function(
            source, target, port, environment(bench), bench.place / f"{target}.log", options=options
        )
    try:
        first_answer(port, process)
        yield port, process.pid
    finally:
        stop(process)


def workers_of(pid: int) -> list[int]:
    """The process and its children: gunicorn's master and its worker, or a postmaster and its backends."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [pid, *map(int, children.read_text().split())] if children.exists() else [pid]


def hit(port: int, connections: int, seconds: float, expected: bytes) -> tuple[int, float]:
    """Hits as fast as the answers come, one at a time on each keep-alive connection; how many, in how long."""
    poll = select.epoll()
    socks, answers = {}, {}
    for _ in range(connections):
        sock = socket.create_connection(("127.0.0.1", port), 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        socks[sock.fileno()], answers[sock.fileno()] = sock, b""
        poll.register(sock.fileno(), select.EPOLLIN)
    answered, start = 0, time.perf_counter()
    for sock in socks.values():
        sock.sendall(REQUEST)
    while (now := time.perf_counter()) < start + seconds:
        for number, _ in poll.poll(1):
            answers[number] = answer = answers[number] + socks[number].recv(65536)
            if not _is_whole(answer):
                continue
            if not answer.startswith(b"HTTP/1.1 200") or expected not in answer:
                raise RuntimeError(f"not the expected answer: {answer!r}")
            answered += 1
            answers[number] = b""
            socks[number].sendall(REQUEST)
    for sock in socks.values():
        sock.close()
    poll.close()
    return answered, now - start


def _is_whole(answer: bytes) -> bool:
    """The server writes head and body apart."""
    head, end, body = answer.partition(b"\r\n\r\n")
    return bool(end) and len(body) >= int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
