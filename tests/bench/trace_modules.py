"""How many modules of ours a hit passes, and how often it returns to one that it has already been in.

Counts calls on the event loop's thread, in the order they happen; a coroutine that is resumed is no new call. A job
that does one insert in run.commit() is hit when its row is due (a committed run), and once more (a skip). `--forced`
traces a run by force instead, which takes another way. `--calls` lists them.
"""

import argparse
import asyncio
import os
import sys
from types import FrameType
from typing import Any

from starlette.requests import Request

from tests.bench.side_by_side import ROOT, Bench, database

_OURS = str(ROOT / "functions" / "cronlease") + os.sep


class Trace:
    """The calls of our functions, as (module, function)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self._frames: dict[int, FrameType] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event != "call" or id(frame) in self._frames or not path.startswith(_OURS):
            return
        # Kept, so that no later frame has the same id.
        self._frames[id(frame)] = frame
        self.calls.append((path.removeprefix(_OURS).removesuffix(".py"), frame.f_code.co_qualname))

    def summary(self, since: str | None = None) -> str:
        """Of all, or of what comes after the first call of that function."""
        seen: list[str] = []
        returns, last = 0, ""
        start = 0 if since is None else [function for _, function in self.calls].index(since)
        for module, _ in self.calls[start:]:
            if module not in seen:
                seen.append(module)
            elif module != last:
                returns += 1
            last = module
        return (
            f"{len(seen)} modules, {len(self.calls) - start} calls, {returns} returns to a module already seen: "
            + " ".join(seen)
        )

    def listing(self) -> str:
        lines, last = [], ""
        for module, function in self.calls:
            lines.append(f"  {'' if module == last else module:28}{function}")
            last = module
        return "\n".join(lines)


def request(body: bytes) -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"host", b"localhost"), (b"content-length", b"%d" % len(body))]
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": "/", "query_string": b""}
    return Request({**scope, "headers": headers, "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 9)}, receive)


def make_due(bench: Bench, forced: bool) -> None:
    """Ages the row, unless the run is to be forced: that is to meet a row that is not due."""
    if not forced:
        with bench.connect() as conn:
            conn.execute("update public.refresh_schedule set next_run_at = now() - interval '1 second'")


async def trace(target: Any, body: bytes, expected: bytes) -> Trace:
    traced = Trace()
    asked = request(body)
    sys.setprofile(traced)
    try:
        answer = await target(asked)
    finally:
        sys.setprofile(None)
    assert expected in answer.body, answer.body
    return traced


async def measure(bench: Bench, *, calls: bool, forced: bool) -> None:
    from cronlease import Run, scheduled

    @scheduled
    async def one_insert(run: Run) -> None:
        async with run.commit() as conn:
            await conn.execute("insert into things (id) values (1)")
            run.report(inserted=1)

    target: Any = one_insert
    body = b'{"force": true}' if forced else b""
    # Before: the first hit makes the row and connects, the others prepare.
    await target(request(b""))
    make_due(bench, forced)
    for each in (body, b""):
        await target(request(each))
    make_due(bench, forced)
    for name, each, expected in (
        ("a forced run" if forced else "a committed run", body, b'"status": "success"'),
        ("a skip", b"", b'"reason": "not_due"'),
    ):
        traced = await trace(target, each, expected)
        print(f"{name}: {traced.summary()}")
        print(f"  of it from run_once on: {traced.summary('run_once')}")
        if calls:
            print(traced.listing())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--forced", action="store_true")
    args = parser.parse_args()
    with database(None) as bench:
        with bench.connect() as conn:
            conn.execute("create table if not exists things (id bigint)")
        os.environ["DATABASE_URL"] = bench.url
        os.environ["CRONLEASE_ALLOW_FORCE"] = "1"
        asyncio.run(measure(bench, calls=args.calls, forced=args.forced))


if __name__ == "__main__":
    main()
