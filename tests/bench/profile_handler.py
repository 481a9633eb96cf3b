"""Where the time of a skip hit goes: the same hit entered at each layer, one at a time, then a profile of the whole.

In this process on uvloop with a real database, client and backend on one core; without the HTTP server.
"""

import argparse
import asyncio
import cProfile
import importlib.util
import os
import pstats
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import functions_framework.aio
import uvloop
from starlette.requests import Request

from cronlease.db.connection import Database
from cronlease.db.functions import acquire_refresh_lock
from cronlease.job import Hit, Job
from cronlease.run.attempt import Attempt, claim
from cronlease.run.execution import run_once
from cronlease.settings import load
from tests.bench.side_by_side import NAME, ROOT, Bench, Cost, Measure, alternate, cores, cpu_of, database, pin, show

Step = Callable[[], Awaitable[object]]


def scope() -> dict[str, Any]:
    """As uvicorn makes it for a POST without a body."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8080),
        "client": ("127.0.0.1", 50000),
        "scheme": "http",
        "method": "POST",
        "root_path": "",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [(b"host", b"bench"), (b"content-length", b"0")],
        "state": {},
    }


async def receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def send(_: Any) -> None: ...


def layers(bench: Bench) -> dict[str, Step]:
    """The same skip from the inside to the outside."""
    pool, settings = Database(bench.url), load()
    job = Job.of(lambda run: None, settings, name=NAME)
    limits = job.limits
    target = _target(ROOT / "functions" / "main.py")
    served: Any = functions_framework.aio._create_asgi_app_with_function

    async def select_1(_: Any) -> str:
        await one("select 1")
        return "ok"

    app, bare, hello = (served(function, "http", False) for function in (target, select_1, _hello))

    def query() -> Any:
        return acquire_refresh_lock(NAME, uuid4(), limits.lease, backoff=job.backoff.band.high)

    def attempt() -> Attempt:
        return Attempt(NAME, uuid4(), "manual", limits, time.monotonic())

    async def one(text: str, params: Any = None) -> None:
        async with pool.connection() as conn:
            await (await conn.execute(text, params)).fetchone()

    asked = query()
    return {
        "select 1 on the pool": lambda: one("select 1"),
        "the query on the pool": lambda: one(asked.text, asked.params),
        "database.ask, query built": lambda: pool.ask(query()),
        "claim": lambda: claim(attempt(), query(), pool, settings, (), lambda _: None),
        "run_once": lambda: run_once(job, Hit(), pool, settings),
        "the target, with a Request": lambda: target(Request(scope(), receive, send)),
        "the whole ASGI app": lambda: app(scope(), receive, send),
        "the app with a bare select 1": lambda: bare(scope(), receive, send),
        "the app with a bare hello": lambda: hello(scope(), receive, send),
    }


async def _hello(request: Any) -> str:
    return "hello"


def _target(source: Path) -> Any:
    spec = importlib.util.spec_from_file_location("bench_main", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, NAME)


async def repeat(step: Step, times: int) -> None:
    for _ in range(times):
        await step()


def measured(runner: asyncio.Runner, step: Step, times: int, backends: Callable[[], list[int]]) -> Measure:
    def measure() -> Cost:
        pids = backends()
        cpu, wall = time.process_time() + cpu_of(pids), time.perf_counter()
        runner.run(repeat(step, times))
        wall = time.perf_counter() - wall
        return Cost(wall / times, (time.process_time() + cpu_of(pids) - cpu) / times)

    return measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--times", type=int, default=200, help="hits in a round")
    parser.add_argument("--lines", type=int, default=30, help="of the profile; 0: none")
    args = parser.parse_args()
    core = cores()[-1] if cores() else None
    with database(core) as bench, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pin(0, core)
        os.environ["DATABASE_URL"] = bench.url
        children = Path(f"/proc/{bench.postmaster}/task/{bench.postmaster}/children")
        steps = layers(bench)
        variants = {
            name: measured(runner, step, args.times, lambda: [int(pid) for pid in children.read_text().split()])
            for name, step in steps.items()
        }
        show("not_due, one hit after another", alternate(variants, args.rounds), "select 1 on the pool")
        if args.lines:
            profile = cProfile.Profile()
            profile.enable()
            runner.run(repeat(steps["the whole ASGI app"], 2000))
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(args.lines)


if __name__ == "__main__":
    main()
