"""The memory of a run: a feed of 1,000,000 items streamed from another process, through the real run_once and job.

    python -m tests.bench.bench_memory [--items N]

Growth is the peak of the process's resident memory during its one run (VmHWM) over what was resident just before: the
database had answered, and nothing of the job was imported. Three runs, each in a process of its own: a small feed,
which shows what the imports and the fixed buffers take; the large one; the large one again, unchanged. Goal: under
100 MB.
"""

import asyncio
import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from cronlease.db.connection import Database
from cronlease.job import Hit, Job
from cronlease.run.execution import run_once
from cronlease.run.run import Run
from cronlease.settings import load
from tests.bench import command
from tests.bench.side_by_side import NAME, Bench, database, resident
from tests.bench.table import Row, below

QUICK = {"items": 20_000}
SMALL = 2_000
LIMIT = 100
_SPAWN = multiprocessing.get_context("spawn")
_AT_ONCE = 500
_LIMIT = "60m"
# Every item has the same length, about 400 bytes, so that the answer can say its own.
_HEAD, _BETWEEN, _TAIL = b'{"jobs":[', b",", b'],"meta":{"total":%d}}'
_ITEM = (
    '{"absolute_url":"https://boards.example/acme/jobs/4%(n)07d","internal_job_id":3%(n)07d,"location":{"name":'
    '"Leeds, United Kingdom"},"metadata":null,"id":4%(n)07d,"updated_at":"2026-11-10T09:12:44-05:00",'
    '"requisition_id":"R-%(n)07d","title":"Store Manager %(n)07d","company_name":"Acme Stores International",'
    '"first_published":"2026-11-02T14:00:00-05:00","language":"en","education":"education_optional"}'
)


class Found(NamedTuple):
    """What one run said and took: seconds, and MB before it and at its peak."""

    said: str
    seconds: float
    before: float
    peak: float


def document(items: int) -> Iterator[bytes]:
    """As Greenhouse writes a board, a few items at a time."""
    yield _HEAD
    for start in range(0, items, _AT_ONCE):
        numbers = range(start, min(start + _AT_ONCE, items))
        yield (_BETWEEN if start else b"") + _BETWEEN.join((_ITEM % {"n": number}).encode() for number in numbers)
    yield _TAIL % items


def length(items: int) -> int:
    return len(_HEAD) + items * (len(_ITEM % {"n": 0}) + len(_BETWEEN)) - len(_BETWEEN) + len(_TAIL % items)


class Feed(BaseHTTPRequestHandler):
    """/<items> is a board with so many openings."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        items = int(self.path.strip("/"))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(length(items)))
        self.end_headers()
        for piece in document(items):
            self.wfile.write(piece)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing to say."""


def serve(port: Any) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Feed)
    port.send(server.server_port)
    server.serve_forever()


@contextlib.contextmanager
def feed() -> Iterator[int]:
    """The port of a feed server in a process of its own."""
    ours, theirs = _SPAWN.Pipe(duplex=False)
    process = _SPAWN.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield int(ours.recv())
    finally:
        process.kill()
        process.join()


async def refresh_opening_signals(run: Run) -> None:
    """As main.py has it, its import included."""
    from opening_signals.job import refresh

    await refresh(run)


async def run_the_job(url: str) -> Found:
    # Not from the environment: what is set there must not change the figures.
    settings = load({"DATABASE_URL": url, "CRONLEASE_LEASE": _LIMIT, "CRONLEASE_MAX_RUN": _LIMIT})
    pool, job = Database(url), Job.of(refresh_opening_signals, settings, name=NAME)
    async with pool.connection() as conn:
        await conn.execute("select 1")
    with contextlib.suppress(OSError):
        # The peak begins anew.
        Path("/proc/self/clear_refs").write_text("5")
    before, start = resident("VmRSS"), time.perf_counter()
    outcome = await run_once(job, Hit(force=True), pool, settings)
    said = f"{outcome.status}: {outcome.error}" if outcome.error else f"{outcome.status}, {outcome.counts}"
    found = Found(said, time.perf_counter() - start, before, resident("VmHWM"))
    await pool.close()
    return found


def child(answer: Any, url: str, sources: str) -> None:
    os.environ["CRONLEASE_SOURCES"] = sources
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        answer.send(runner.run(run_the_job(url)))


def one_run(bench: Bench, port: int, items: int) -> Found:
    sources = bench.place / "sources.toml"
    sources.write_text(
        f'[[source]]\nname = "acme-{items}"\nkind = "greenhouse"\nallow_private = true\n'
        f'url = "http://127.0.0.1:{port}/{items}"\n'
    )
    ours, theirs = _SPAWN.Pipe(duplex=False)
    process = _SPAWN.Process(target=child, args=(theirs, bench.url, str(sources)))
    process.start()
    theirs.close()
    try:
        found: Found = ours.recv()
    finally:
        process.join()
    return found


def rows(*, items: int = 1_000_000) -> Iterator[Row]:
    with database(None) as bench, feed() as port:
        print(f"{items:,} items of {len(_ITEM % {'n': 0})} bytes, {length(items) / 1e6:.0f} MB", flush=True)
        for name, count in (
            ("first load of a small feed", SMALL),
            ("first load", items),
            ("unchanged reload", items),
        ):
            found = one_run(bench, port, count)
            with bench.connect() as conn:
                stored = conn.execute(
                    "select count(*) from public.opening_signals where source = %s and closed_at is null",
                    [f"acme-{count}"],
                ).fetchone()
            assert stored == (count,), f"{stored} rows: {found.said}"
            print(
                f"{name}, {count:,} items: {found.seconds:.1f} s, before {found.before:.1f} MB,"
                f" peak {found.peak:.1f} MB; {found.said}",
                flush=True,
            )
            yield below(f"memory of a run, {name}, {count:,} items", found.peak - found.before, "MB", LIMIT)


if __name__ == "__main__":
    command.run(rows, QUICK)
