"""A server's log lines are written by a thread: in order, whole, and without stopping whoever logs."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cronlease.observe import writer
from cronlease.observe.writer import LineWriter

ROOT = Path(__file__).parents[2]
LOGGING = """
import asyncio, logging, os, sys
from cronlease.observe import logs

os.environ["CRONLEASE_TOKEN"] = "s3cret-of-the-server"
logs.configure("INFO")

def skipped(number, **fields):
    logs.log_often(logging.INFO, "Skipped tick: locked", action="run_skipped", request_id=f"id-{number}", **fields)

async def main():
    logs.log(logging.INFO, "first", action="one")
    for number in range(500):
        skipped(number, function="tick", locked_by='by "quotes"')
    skipped(500, function="s3cret-of-the-server")
    logs.headers.set([(b"traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01")])
    skipped(501, function="tick")
    logs.log(logging.ERROR, "last", action="two")

asyncio.run(main())
"""


def test_lines_are_whole_in_order_and_there_when_the_process_has_ended() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "functions")}
    done = subprocess.run(
        [sys.executable, "-c", LOGGING], env=environment, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["message"] for line in (lines[0], lines[-1])] == ["first", "last"]
    skips = lines[1:-1]
    assert [line["request_id"] for line in skips] == [f"id-{number}" for number in range(502)]
    label = "logging.googleapis.com/labels"
    assert [line[label]["request_id"] for line in skips] == [line["request_id"] for line in skips]
    assert skips[0]["locked_by"] == 'by "quotes"'
    assert skips[0]["time"] <= skips[499]["time"]
    assert "s3cret" not in done.stderr
    assert skips[501]["logging.googleapis.com/trace"] == "a" * 32
    assert not any("logging.googleapis.com/trace" in line for line in skips[:501])


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


def test_a_reader_that_stands_still_stops_nobody_and_what_is_dropped_is_counted(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_MOST_WAITING", 1000)
    reading, writing = pipe
    lines = LineWriter(writing)
    text = "x" * 500

    async def storm() -> float:
        began = time.monotonic()
        for _ in range(5000):
            lines.write(text)
        lines.flush()
        return time.monotonic() - began

    assert asyncio.run(storm()) < 5, "the pipe is full, and nobody waits for it"
    seen = b""
    while b"were dropped" not in seen:
        seen += os.read(reading, 65536)
    *whole, told = seen.decode().splitlines()
    assert set(whole) == {text}
    assert len(whole) + int(json.loads(told)["message"].split()[0]) == 5000
    os.close(reading)


def test_a_reader_that_is_gone_is_no_error(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    lines = LineWriter(writing)
    os.close(reading)
    lines.write("nobody reads this")
    lines.flush()
    lines.write("nor this")
    lines.flush()
