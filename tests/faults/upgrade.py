"""Version 0.1 and this one on one database: real servers and workers of both, hit all the time, while one is upgraded
to, rolled back from and upgraded to again, each time with runs under way."""

import json
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from opening_signals.samples.feeds import FeedServer
from tests.acceptance.conftest import Served, answers, clean_environment, free_port, stop
from tests.faults.processes import started
from tests.faults.upgrade_checks import Snapshot, is_unexpected, judged
from tests.faults.upgrade_versions import HIT, JOBS, Version
from tests.integration.conftest import Room, wait_until

SOURCE = ("--source", str(JOBS))
ONE_SHOTS = 10


class Rehearsal:
    """One database, the logs of all processes, and all answers. The stack ends what still runs."""

    def __init__(self, room: Room, place: Path, sources: Path, stack: ExitStack) -> None:
        self.room, self.stack = room, stack
        self._place, self._sources = place, sources
        self._logs: list[Path] = []
        self._lock = threading.Lock()
        self.told: Counter[str] = Counter()
        self.undocumented: list[str] = []
        self.snapshots: list[Snapshot] = []
        self.bare_file = place / "bare"
        self.bare_file.touch()

    def environment(self, version: Version, **more: str) -> dict[str, str]:
        return {
            "DATABASE_URL": self.room.dsn,
            "PYTHONPATH": str(version.functions),
            "SERVED_VERSION": version.name,
            "BARE_FILE": str(self.bare_file),
            "CRONLEASE_SOURCES": str(self._sources),
            "CRONLEASE_DRAIN_SECONDS": "1",
            "CRONLEASE_DISPATCH_PAUSE": "0.05s",
            **more,
        }

    @contextmanager
    def started(self, version: Version, command: list[str], url: str = "", **environment: str) -> Iterator[Served]:
        log = self._place / f"{len(self._logs)} of {version.name}.log"
        self._logs.append(log)
        with started(command, log, url, **self.environment(version, **environment)) as served:
            yield served
            stop(served.process)
            assert served.process.returncode == 0, log.read_text()[-2000:]

    def run(self, version: Version, *words: str) -> str:
        """A command of that version, which must succeed."""
        environment = clean_environment(**self.environment(version))
        done = subprocess.run(version.command(*words), env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{version.name} {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def migrate(self, version: Version) -> list[str]:
        """With a run under way; answers what was applied."""
        self.under_way()
        applied: list[str] = json.loads(self.run(version, "migrate", *SOURCE, "--json"))["applied"]
        return applied

    def under_way(self) -> None:
        """Waits for a run that has just begun."""
        text = (
            "select count(*) from refresh_runs where status = 'running' and function_name = 'linger'"
            " and started_at > clock_timestamp() - interval '1 s'"
        )
        wait_until(lambda: self.room.query(text) == [(1,)], 30)

    def pass_time(self, seconds: float) -> None:
        """While rows come due. What has ended by now must stay as it is."""
        self.snapshots.append(Snapshot.of(self.room))
        self.schedule(f"shot {len(self.snapshots)}", ONE_SHOTS, seconds / ONE_SHOTS)
        time.sleep(seconds)

    def schedule(self, name: str, rows: int, apart: float = 0) -> None:
        """One-shots of both actions by turns, due so many seconds apart."""
        self.room.query(
            f"select schedule_action(p_function_name => r.name, p_delay => r.n * interval '{apart} s',"
            " p_action => case when r.n % 2 = 0 then 'note' else 'bare' end,"
            " p_args => jsonb_build_object('name', r.name))"
            f" from (select n, '{name} ' || n as name from generate_series(0, {rows} - 1) n) r"
        )

    def completed(self) -> None:
        """Waits for the end of all one-shots."""
        open_ones = "select count(*) from refresh_schedule where once and completed_at is null"
        wait_until(lambda: self.room.query(open_ones) == [(0,)], 120)

    def enter(self, version: str, path: str, status: int, answer: dict[str, Any], *, stopping: bool) -> None:
        word, documented = judged(path, status, answer, stopping=stopping)
        with self._lock:
            self.told[f"{version} {word}"] += 1
            if not documented:
                self.undocumented.append(f"{version} {path} {status} {answer}"[:500])

    def errors(self) -> list[str]:
        lines = [(log.name, line) for log in self._logs for line in log.read_text().splitlines()]
        return [f"{name}: {line}"[:600] for name, line in lines if is_unexpected(line)]


class Deployment:
    """The servers and the worker of one version, and a caller that hits them every 50 to 100 ms."""

    def __init__(self, version: Version, rehearsal: Rehearsal) -> None:
        self._version, self._rehearsal = version, rehearsal
        self._stack = rehearsal.stack.enter_context(ExitStack())
        self._stopping, self._ended = threading.Event(), threading.Event()
        rehearsal.stack.callback(self._ended.set)
        self._servers = {target: self._serve(target) for target in version.targets}
        self._start(version.command("worker", *SOURCE, "--concurrency", "2"))
        self._pool = ThreadPoolExecutor(24)
        self._caller = threading.Thread(target=self._call, daemon=True)
        self._caller.start()

    def stop(self) -> None:
        """SIGTERM, with a run under way and while the hits go on."""
        self._rehearsal.under_way()
        self._stopping.set()
        self._stack.close()
        self._ended.set()
        self._caller.join()
        self._pool.shutdown()

    def _start(self, command: list[str], url: str = "") -> Served:
        return self._stack.enter_context(self._rehearsal.started(self._version, command, url))

    def _serve(self, target: str) -> Served:
        port = free_port()
        command = [self._version.python, "-m", "functions_framework", *SOURCE, "--target", target]
        served = self._start([*command, "--host", "127.0.0.1", "--port", str(port)], f"http://127.0.0.1:{port}")
        wait_until(lambda: answers(served), 60)
        return served

    def _call(self) -> None:
        while not self._ended.wait(random.uniform(0.05, 0.1)):
            self._pool.submit(self._hit, *self._choose())

    def _choose(self) -> tuple[Served, str]:
        main = self._servers[HIT[0]]
        if random.random() < 0.05:
            return main, "/run-due"
        name = random.choice(HIT)
        return (self._servers[name], "/") if name in self._servers else (main, f"/{name}")

    def _hit(self, served: Served, path: str) -> None:
        try:
            response = served.hit(path)
            status, answer = response.status_code, response.json()
        except (httpx2.TransportError, ValueError) as error:
            status, answer = 0, {"reason": type(error).__name__}
        self._rehearsal.enter(self._version.name, path, status, answer, stopping=self._stopping.is_set())


def rehearse(rehearsal: Rehearsal, old: Version, new: Version, seconds: float) -> None:
    """Version 0.1, this one beside it, this one, version 0.1, this one beside it, this one."""
    rehearsal.run(old, "migrate")
    rehearsal.room.query(
        "create table effect (name text not null, request_id uuid primary key, version text not null)"
    )
    for name, every in (("row 1", "0.3s..0.6s"), ("row 2", "0.5s")):
        args = json.dumps({"name": name})
        rehearsal.run(
            old, "schedule", "create", name, "--action", "note", "--in", "0s", "--every", every, "--args", args
        )
    first = Deployment(old, rehearsal)
    rehearsal.pass_time(seconds)
    assert "0013_time" in rehearsal.migrate(new)
    rehearsal.pass_time(seconds)
    second = Deployment(new, rehearsal)
    rehearsal.pass_time(seconds)
    first.stop()
    rehearsal.pass_time(seconds)
    second.stop()
    third = Deployment(old, rehearsal)
    rehearsal.pass_time(seconds)
    assert rehearsal.migrate(new) == []
    fourth = Deployment(new, rehearsal)
    rehearsal.pass_time(seconds)
    third.stop()
    rehearsal.pass_time(seconds)
    rehearsal.completed()
    fourth.stop()


def share(rehearsal: Rehearsal, old: Version, new: Version, rows: int) -> None:
    """A worker of each version on the same due rows; this one claims and ends them in batches."""
    rehearsal.schedule("shared", rows)
    pace = {"CRONLEASE_DISPATCH_PAUSE": "0s"}
    lanes = {old: "8", new: "50"}
    with ExitStack() as stack:
        for version, concurrency in lanes.items():
            command = version.command("worker", *SOURCE, "--concurrency", concurrency)
            stack.enter_context(rehearsal.started(version, command, **pace))
        rehearsal.completed()


@contextmanager
def rehearsing(dsn: str, place: Path) -> Iterator[Rehearsal]:
    with FeedServer(latency=0.2) as feeds, ExitStack() as stack:
        feeds.write_sources(place / "sources.toml")
        feeds.start()
        yield Rehearsal(Room(dsn), place, place / "sources.toml", stack)
