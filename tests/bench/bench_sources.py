"""200 sources with 14,425 openings, in real runs over real HTTP: the first one, one in which every feed answers 304,
and the first one again beside sources that send headers and no body.

    python -m tests.bench.bench_sources [--hung 60]

Healthy and hung sources each have a host of their own, addresses of the loopback network. Goals: the first run under
10 s, all 304 under 2 s, and with 60 hung of 200 the last piece of the 140 begins within 20 s of the run's start.
"""

import asyncio
import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg

from cronlease.db.connection import Database
from cronlease.job import Hit, Job
from cronlease.run.execution import run_once
from cronlease.settings import load
from opening_signals.job import refresh
from tests.bench import command
from tests.bench.side_by_side import database
from tests.bench.table import Row, below

QUICK = {"hung": 3}
SOURCES = 200
OPENINGS = 14_425
_COMMITTED = """
select count(distinct o.source), max(extract(epoch from o.first_seen_at - r.started_at))
from opening_signals o
cross join (select started_at from refresh_runs order by fence desc limit 1) r
"""


class Boards(ThreadingHTTPServer):
    """Serves /N as a board of its share of the openings, and /hung/N as headers only."""

    daemon_threads = True
    request_queue_size = 300

    def __init__(self) -> None:
        super().__init__(("0.0.0.0", 0), _Handler)
        self.over = threading.Event()
        self.bodies = [_board(number) for number in range(SOURCES)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Boards)
        *hung, number = self.path.strip("/").split("/")
        body = server.bodies[int(number)]
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        known = self.headers.get("If-None-Match") == etag
        self.send_response(304 if known else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("ETag", etag)
        self.send_header("Content-Length", "0" if known else str(len(body)))
        self.end_headers()
        if hung:
            server.over.wait()
        elif not known:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def _board(number: int) -> bytes:
    count = OPENINGS // SOURCES + (number < OPENINGS % SOURCES)
    jobs = [
        {
            "id": 1000 * number + each,
            "title": f"Store Manager {each}",
            "location": {"name": "Leeds, UK"},
            "absolute_url": f"https://boards.example/{number}/{each}",
            "first_published": "2026-11-02T14:00:00-05:00",
            "updated_at": "2026-11-10T09:12:44-05:00",
            "content": "We are hiring. " * 40,
        }
        for each in range(count)
    ]
    return json.dumps({"jobs": jobs}).encode()


def write_sources(path: Path, port: int, hung: int) -> None:
    """Every third source is hung until there are so many of them."""
    lines = []
    for number in range(SOURCES):
        is_hung = number % 3 == 0 and number // 3 < hung
        host = f"127.0.{2 if is_hung else 1}.{number + 1}"
        lines.append(
            f'[[source]]\nname = "board{number}"\nkind = "greenhouse"\nallow_private = true\n'
            f'url = "http://{host}:{port}/{"hung/" if is_hung else ""}{number}"\n'
        )
    path.write_text("\n".join(lines))


async def hit(url: str) -> tuple[float, str]:
    settings = load({})
    pool = Database(url)
    started = time.perf_counter()
    try:
        outcome = await run_once(Job.of(refresh, settings, name="bench"), Hit(force=True), pool, settings)
    finally:
        await pool.close()
    return time.perf_counter() - started, f"{outcome.status}, {outcome.counts}"


def run(url: str, name: str, healthy: int, *, fresh: bool = True) -> tuple[float, float]:
    """Seconds that the run took, and after which its last piece with new openings began."""
    with psycopg.connect(url, autocommit=True) as conn:
        if fresh:
            conn.execute("truncate opening_signals, opening_sources, opening_pages")
        seconds, said = asyncio.run(hit(url))
        row = conn.execute(_COMMITTED).fetchone()
    print(f"{name}: {seconds:.2f} s; {said}", flush=True)
    assert row is not None
    assert row[0] == healthy, f"{row[0]} sources are stored"
    return seconds, float(row[1])


def rows(*, hung: int = 60) -> Iterator[Row]:
    logging.disable(logging.WARNING)
    boards = Boards()
    threading.Thread(target=boards.serve_forever, daemon=True).start()
    with database(None) as bench:
        path = bench.place / "sources.toml"
        os.environ["CRONLEASE_SOURCES"] = str(path)
        write_sources(path, boards.server_port, 0)
        seconds, _ = run(bench.url, "first run", SOURCES)
        yield below(f"the first run of {SOURCES} sources", seconds, "s", 10)
        seconds, _ = run(bench.url, "all 304", SOURCES, fresh=False)
        yield below(f"a run of {SOURCES} sources that all answer 304", seconds, "s", 2)
        write_sources(path, boards.server_port, hung)
        _, last = run(bench.url, f"first run, {hung} hung", SOURCES - hung)
        yield below(f"the last piece of {SOURCES - hung} sources begins, {hung} more are hung", last, "s", 20)
    boards.over.set()


if __name__ == "__main__":
    command.run(rows, QUICK)
