"""P35: a batch is as safe as one. What P1 to P8 do to a run is done to a worker with many of them: each row ends well
exactly once, and what one of them suffers harms no other."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

from tests.acceptance.conftest import Served
from tests.faults.processes import started
from tests.faults.profile import Profile, thorough
from tests.faults.scene import UNFENCED
from tests.integration.conftest import Room, wait_until
from tests.proxy import Proxy, proxied

SOURCE = Path(__file__).with_name("batch_jobs.py")
ROWS = 40
LANES = 16
PATIENCE = 40
POISON = {"cannot be claimed": "fence = 9223372036854775807", "cannot be finished": "run_count = 9223372036854775807"}


class Batch:
    """Rows that are due, the workers at them, and what the database says afterwards."""

    def __init__(self, room: Room, proxy: Proxy, directory: Path) -> None:
        self.room = room
        self.proxy = proxy
        self._directory = directory
        self.lingering = directory / "linger"
        self._workers = 0
        room.query("create table if not exists effect (name text, request_id uuid)")

    def fill(self, *, linger: bool = False) -> None:
        self.room.query("truncate effect, refresh_runs; delete from refresh_schedule")
        if linger:
            self.lingering.touch()
        args = json.dumps({"linger": str(self.lingering)} if linger else {})
        self.room.query(
            "insert into refresh_schedule (function_name, action, once, args, next_run_at)"
            f" select 'row ' || n, case when n % 2 = 0 then 'bare' else 'writing' end, true, '{args}',"
            f" clock_timestamp() - n * interval '1 second' from generate_series(1, {ROWS}) n"
        )

    @contextmanager
    def worker(self, dsn: str) -> Iterator[Served]:
        command = [sys.executable, "-m", "cronlease.cli.main", "worker", "--source", str(SOURCE)]
        command += ["--concurrency", str(LANES)]
        self._workers += 1
        log = self._directory / f"worker {self._workers}.log"
        # Nothing is prepared, so that each message has its text in it. Rows are aged: the worker's own clock goes on
        # believing in its leases, and only the fence can tell.
        limits = {"CRONLEASE_LEASE": "60s", "CRONLEASE_POOLER": "transaction", "CRONLEASE_DISPATCH_PAUSE": "0s"}
        with started(command, log, DATABASE_URL=dsn, **limits) as served:
            yield served

    def running(self) -> int:
        ((count,),) = self.room.query("select count(*) from refresh_runs where status = 'running'")
        return int(count)

    def left(self) -> int:
        ((count,),) = self.room.query("select count(*) from refresh_schedule where completed_at is null")
        return int(count)

    def expire(self) -> None:
        self.room.query("update refresh_schedule set locked_until = clock_timestamp() where locked_by is not null")

    def drained(self, left: int = 0) -> None:
        wait_until(lambda: self.left() == left, PATIENCE)

    def wrongs(self, but: tuple[str, ...] = ()) -> list[str]:
        """Rows that did not succeed exactly once, or whose effect is not there exactly once, in that very run."""
        rows = self.room.query(
            "select s.function_name, s.action,"
            " (select count(*) from refresh_runs r where r.function_name = s.function_name and r.status = 'success'),"
            " (select count(*) from effect e where e.name = s.function_name),"
            " (select count(*) from effect e join refresh_runs r using (request_id) where r.status = 'success'"
            "  and e.name = s.function_name)"
            " from refresh_schedule s"
        )
        return [
            f"{name}: {successes} successes, {effects} effects, {right} of them its own"
            for name, action, successes, effects, right in rows
            if name not in but and (successes, effects, right) != (1, *([int(action == "writing")] * 2))
        ]


@pytest.fixture
def batch(room: Room, tmp_path: Path) -> Iterator[Batch]:
    with proxied(room.dsn) as proxy:
        yield Batch(room, proxy, tmp_path)


def killed(batch: Batch) -> list[str]:
    batch.fill(linger=True)
    with batch.worker(batch.proxy.dsn) as victim:
        wait_until(lambda: batch.running() >= LANES, PATIENCE)
        os.killpg(victim.process.pid, signal.SIGKILL)
        victim.process.wait()
    batch.lingering.unlink()
    batch.expire()
    with batch.worker(batch.room.dsn):
        batch.drained()
    wrongs = batch.wrongs()
    ((abandoned,),) = batch.room.query("select count(*) from refresh_runs where status = 'abandoned'")
    if abandoned != LANES:
        wrongs.append(f"{abandoned} runs were abandoned")
    return [f"killed: {wrong}" for wrong in wrongs]


@contextmanager
def resumed(batch: Batch) -> Iterator[Served]:
    """A worker that was paused while another took over and committed, and goes on."""
    batch.fill(linger=True)
    with batch.worker(batch.proxy.dsn) as victim:
        wait_until(lambda: batch.running() >= LANES, PATIENCE)
        os.killpg(victim.process.pid, signal.SIGSTOP)
        batch.lingering.unlink()
        batch.expire()
        with batch.worker(batch.room.dsn):
            batch.drained()
            os.killpg(victim.process.pid, signal.SIGCONT)
            yield victim


def paused(batch: Batch) -> list[str]:
    with resumed(batch) as victim:
        wait_until(lambda: victim.log_file.read_text().count("run_lease_lost") >= LANES, PATIENCE)
    return [f"paused: {wrong}" for wrong in batch.wrongs()]


def lost(batch: Batch, text: bytes, what: str) -> list[str]:
    batch.fill()
    before = batch.proxy.lost
    batch.proxy.lose(text, what)
    with batch.worker(batch.proxy.dsn):
        batch.drained()
    wrongs = batch.wrongs()
    statuses = {status for (status,) in batch.room.query("select distinct status from refresh_runs")}
    checks = {
        "a message was lost": batch.proxy.lost == before + 1,
        "no run is left or double": statuses == {"success"},
    }
    return [
        f"{text!r} {what}: {wrong}" for wrong in [*wrongs, *(name for name, holds in checks.items() if not holds)]
    ]


def poisoned(batch: Batch, kind: str) -> list[str]:
    batch.fill()
    batch.room.query(f"update refresh_schedule set {POISON[kind]} where function_name in ('row 7', 'row 22')")
    with batch.worker(batch.room.dsn):
        batch.drained(left=2)
    return [f"{kind}: {wrong}" for wrong in batch.wrongs(but=("row 7", "row 22"))]


def beside_a_killer(batch: Batch) -> list[str]:
    """The oldest row kills each process that runs it. A run of the others has three attempts."""
    batch.fill(linger=True)
    killer = f"row {ROWS}"
    batch.room.query("update refresh_schedule set attempts = 3")
    batch.room.query(f"update refresh_schedule set action = 'killing' where function_name = '{killer}'")
    for _ in range(3):
        with batch.worker(batch.room.dsn) as victim:
            assert victim.process.wait(PATIENCE) == 9
        batch.expire()
    batch.lingering.unlink()
    # The third death cost the killer a backoff.
    with batch.worker(batch.room.dsn):
        batch.drained(left=1)
    return [f"beside a killer: {wrong}" for wrong in batch.wrongs(but=(killer,))]


CLAIM, FINISH = b"claim_due_refreshes", b"finish_refresh_runs"
FAULTS: dict[str, Callable[[Batch], list[str]]] = {
    "kill -9 in the middle of a batch": killed,
    "paused past its lease": paused,
    "the claim is lost": lambda batch: lost(batch, CLAIM, "request"),
    "the answer to the claim is lost": lambda batch: lost(batch, CLAIM, "reply"),
    "the ends are lost": lambda batch: lost(batch, FINISH, "request"),
    "the answer to the ends is lost": lambda batch: lost(batch, FINISH, "reply"),
    "two rows cannot be claimed": lambda batch: poisoned(batch, "cannot be claimed"),
    "two rows cannot be finished": lambda batch: poisoned(batch, "cannot be finished"),
    "a row kills its process": beside_a_killer,
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", [*list(FAULTS)[:-1], thorough(list(FAULTS)[-1])])
def test_each_row_of_a_batch_ends_well_exactly_once(batch: Batch, profile: Profile, fault: str) -> None:
    seen = [FAULTS[fault](batch) for _ in range(profile.n("P35"))]
    profile.record(f"P35 {fault}", seen.count([]), len(seen), violations=list(chain(*seen)))


def test_without_the_fence_a_paused_batch_does_write(batch: Batch) -> None:
    """The negative control."""
    batch.room.query(UNFENCED)
    with resumed(batch):
        wait_until(lambda: bool(batch.wrongs()), PATIENCE)
