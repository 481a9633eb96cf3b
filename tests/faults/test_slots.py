"""Two processes at one schedule: exactly one success for each slot and each delivery. And a job that is killed at
random pieces, again and again: each piece is written exactly once."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cronlease.emulator.uncounted_slots import SlotRun, uncounted_slots
from tests.faults.profile import Profile, thorough
from tests.integration.conftest import wait_until
from tests.schema.calls import call, change, expire, one, row

ROOT = Path(__file__).parents[2]
TIMES = ("next_run_at", "slot_at", "last_slot_at", "last_success_slot_at", "planned_at", "last_run_at")
# Slots far apart: where the real clock reaches the next one, a slot that has failed so far is rightly missed.
CADENCES = {
    "beat": ({"CRONLEASE_EVERY": "6h"}, timedelta(hours=6)),
    "cron": ({"CRONLEASE_CRON": "0 */6 * * *"}, timedelta(hours=6)),
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


def race(
    dsn: str, conn: psycopg.Connection, cadence: str, slots: int, hits: int, leaving: float = 0
) -> list[tuple[Any, int, int]]:
    environment, period = CADENCES[cadence]
    with python("slot_hits.py") as first, python("slot_hits.py") as second:
        for process in (first, second):
            tell(process, dsn=dsn, environment={**environment, **PATIENT})
            assert line(process) == "ready"
        if cadence == "cron":
            # Plans the first slot, which is still to come.
            tell(first, hits=1, delivery="none")
            assert json.loads(line(first)) == ["not_due"]
        successes = 0
        for number in range(slots):
            if (number or cadence == "cron") and period:
                moved = ", ".join(f"{name} = {name} - interval '{period.total_seconds()} s'" for name in TIMES)
                change(conn, moved)
                conn.execute(f"update public.refresh_runs set slot = slot - interval '{period.total_seconds()} s'")
            before = successes
            # Until its success has come: whoever fails is tried again.
            for _ in range(20):
                for process in (first, second):
                    tell(process, hits=hits // 2, delivery=f"delivery {number:03d}", leaving=leaving)
                ended = json.loads(line(first)) + json.loads(line(second))
                successes = one(conn, "select count(*) from public.refresh_runs where status = 'success'")
                assert set(ended) <= {"success", "failed", "locked", "not_due", "duplicate", "left"}, ended
                if successes > before:
                    break
    found = served(conn, cadence)
    assert [count for _, count, _ in found if count != 1] == [], found
    if period:
        first_slot, last_slot = found[0][0], found[-1][0]
        between = (last_slot - first_slot) // period
        assert between == len(found) - 1 + sum(missed for *_, missed in found), "each one is served or counted"
    assert len(found) >= slots
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("cadence", ["cron", thorough("beat"), thorough("hit")])
def test_two_processes_have_one_success_for_each_slot(
    dsn: str, conn: psycopg.Connection, cadence: str, profile: Profile
) -> None:
    found = race(dsn, conn, cadence, slots=profile.n("P33"), hits=20 if profile.name == "quick" else 60)
    profile.record("P33", sum(count == 1 for _, count, _ in found), len(found), cadence=cadence)


@pytest.mark.timeout(1800)
def test_hits_that_share_a_question_have_one_success_for_each_slot(
    dsn: str, conn: psycopg.Connection, profile: Profile
) -> None:
    """P34: some of the callers leave before they are answered, the one whose hit asked for all among them."""
    slots = profile.n("P34")
    found = race(dsn, conn, "cron", slots=slots, hits=400, leaving=0.1)
    wait_until(lambda: row(conn, "job")["locked_by"] is None, 30)
    assert one(conn, "select count(*) from public.refresh_runs where status = 'running'") == 0
    profile.record("P34", sum(count == 1 for _, count, _ in found), len(found), hits=400)


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


@pytest.mark.timeout(900)
def test_a_job_that_is_killed_goes_on_where_it_was(dsn: str, conn: psycopg.Connection, profile: Profile) -> None:
    kills = profile.n("P33 kills")
    work_through(dsn, conn, pieces=20 * kills, kills=kills)


BEATING = """
from cronlease import Run, action


@action("beat")
async def beat(run: Run) -> None: ...
"""


@pytest.mark.thorough
def test_a_worker_that_was_paused_over_three_slots_counts_them(
    dsn: str, conn: psycopg.Connection, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(BEATING)
    call(conn, "schedule_action", function_name="job", action="beat", every="1s")
    environment = {**os.environ, "DATABASE_URL": dsn, "CRONLEASE_DISPATCH_PAUSE": "0s"}
    command = [sys.executable, "-m", "cronlease", "worker", "--source", str(tmp_path / "main.py")]
    with (tmp_path / "log").open("w") as log:
        worker = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        successes = "select count(*) >= {} from public.refresh_runs where status = 'success'"
        wait_until(lambda: one(conn, successes.format(2)), 30)
        worker.send_signal(signal.SIGSTOP)
        ahead = "select clock_timestamp() > max(slot) + interval '4.5 s' from public.refresh_runs"
        wait_until(lambda: one(conn, ahead), 30)
        worker.send_signal(signal.SIGCONT)
        wait_until(lambda: one(conn, "select max(missed) >= 3 from public.refresh_runs") or False, 30)
        before = one(conn, "select count(*) from public.refresh_runs where status = 'success'")
        wait_until(lambda: one(conn, successes.format(before + 1)), 30)
    finally:
        worker.kill()
        worker.wait(30)
    text = "select 'job', slot, coalesce(missed, 0), status = 'success', '1s' from public.refresh_runs order by fence"
    runs = [SlotRun._make(each) for each in conn.execute(text).fetchall()]
    assert uncounted_slots(runs) == []
    assert len({each.slot for each in runs if each.committed}) == sum(each.committed for each in runs)
