"""Two processes at one schedule: exactly one success for each slot and each delivery. And a job that is killed at
random pieces, again and again: each piece is written exactly once."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.schema.calls import change, expire, one, row

ROOT = Path(__file__).parents[2]
TIMES = ("next_run_at", "slot_at", "last_slot_at", "last_success_slot_at", "planned_at", "last_run_at")
CADENCES = {
    "beat": ({"CRONLEASE_EVERY": "6h"}, timedelta(hours=6)),
    "cron": ({"CRONLEASE_CRON": "* * * * *"}, timedelta(minutes=1)),
    "hit": ({"CRONLEASE_EVERY": "hit"}, timedelta(0)),
}
# A slot is tried until it succeeds, at once.
PATIENT = {"CRONLEASE_ATTEMPTS": "1000", "CRONLEASE_BACKOFF": "0s"}


@contextmanager
def python(script: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(Path(__file__).with_name(script)), *args]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def tell(process: subprocess.Popen[str], **what: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(what) + "\n")
    process.stdin.flush()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def served(conn: psycopg.Connection, cadence: str) -> list[tuple[Any, int, int]]:
    """Each slot, or delivery, with how many runs of it succeeded and what was counted as missed before it."""
    of = "delivery" if cadence == "hit" else "slot"
    text = f"""
        select {of}, count(*) filter (where status = 'success'), coalesce(sum(missed), 0)::integer
        from public.refresh_runs
        group by {of}
        order by {of}
    """
    return conn.execute(text).fetchall()


def race(dsn: str, conn: psycopg.Connection, cadence: str, slots: int, hits: int) -> None:
    environment, period = CADENCES[cadence]
    with python("slot_hits.py") as first, python("slot_hits.py") as second:
        for process in (first, second):
            tell(process, dsn=dsn, environment={**environment, **PATIENT})
            assert line(process) == "ready"
        successes = 0
        for number in range(slots):
            if number and period:
                moved = ", ".join(f"{name} = {name} - interval '{period.total_seconds()} s'" for name in TIMES)
                change(conn, moved)
                conn.execute(f"update public.refresh_runs set slot = slot - interval '{period.total_seconds()} s'")
            before = successes
            # Until its success has come: whoever fails is tried again.
            for _ in range(5):
                for process in (first, second):
                    tell(process, hits=hits // 2, delivery=f"delivery {number:03d}")
                ended = json.loads(line(first)) + json.loads(line(second))
                successes += ended.count("success")
                assert set(ended) <= {"success", "failed", "locked", "not_due", "duplicate"}, ended
                if successes > before:
                    break
    found = served(conn, cadence)
    assert [count for _, count, _ in found if count != 1] == [], found
    if period:
        first_slot, last_slot = found[0][0], found[-1][0]
        between = (last_slot - first_slot) // period
        assert between == len(found) - 1 + sum(missed for *_, missed in found), "none is left out without a count"
    assert len(found) >= slots


@pytest.mark.parametrize("cadence", CADENCES)
def test_two_processes_have_one_success_for_each_slot(dsn: str, conn: psycopg.Connection, cadence: str) -> None:
    race(dsn, conn, cadence, slots=4, hits=20)


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("cadence", CADENCES)
def test_sixty_hits_at_each_of_two_hundred_slots(dsn: str, conn: psycopg.Connection, cadence: str) -> None:
    race(dsn, conn, cadence, slots=200, hits=60)


def work_through(dsn: str, conn: psycopg.Connection, pieces: int, kills: int) -> None:
    conn.execute("create table public.pieces (piece integer)")
    source, done = random.Random(pieces), 0
    for _ in range(kills):
        with python("pieces.py", dsn, str(pieces)) as process:
            # About half of the work: what it writes before the signal arrives comes on top.
            ends_after = source.randint(0, pieces // kills)
            for _ in range(ends_after + 1):
                if not line(process).isdigit():
                    break
        done += 1
        # Its lease would run out by itself.
        expire(conn, "pieces")
    assert one(conn, "select count(*) from public.pieces") < pieces, "it was killed before its end each time"
    with python("pieces.py", dsn, str(pieces)) as process:
        while (said := line(process)).isdigit():
            continue
    assert (said, done) == ("success", kills)
    found = one(conn, "select array_agg(piece order by piece) from public.pieces")
    assert found == list(range(pieces)), "each piece was written exactly once"
    assert row(conn, "pieces")["saved"] is None


def test_a_job_that_is_killed_goes_on_where_it_was(dsn: str, conn: psycopg.Connection) -> None:
    work_through(dsn, conn, pieces=60, kills=2)


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_fifty_kills_at_random_pieces_of_a_thousand(dsn: str, conn: psycopg.Connection) -> None:
    work_through(dsn, conn, pieces=1000, kills=50)
