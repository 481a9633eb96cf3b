"""P21 and P31: whatever a feed holds, the memory and the time that reading it takes are bounded, and neither the
other sources nor the health probe suffer."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import FUNCTIONS, Serve, Served, clean_environment
from tests.faults.hostile_feeds import HOSTILE, sending
from tests.faults.processes import workers
from tests.faults.profile import Profile
from tests.integration.boards import board, job
from tests.integration.conftest import Room
from tests.integration.web import Web, answer, web

pytestmark = pytest.mark.thorough

__all__ = ["web"]

MOST_MB = 32
# What the recipes give an instance.
INSTANCE_MB = 512
MB = 1024**2


class Scales:
    def __init__(self, process: "subprocess.Popen[str]", web: Web) -> None:
        self._process, self._web = process, web

    def weigh(self, name: str, size: int, deadline: float) -> dict[str, Any]:
        """What it cost to read that feed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._web.scripts["/"] = sending(HOSTILE[name], size)
        print(HOSTILE[name].kind, deadline, self._web.url(), file=self._process.stdin, flush=True)
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


@contextmanager
def scales(web: Web, *arguments: str) -> Iterator[Scales]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.weigh", *arguments],
        cwd=Path(__file__).parents[2],
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Scales(process, web)


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_a_hostile_feed_costs_little_memory_and_no_more_than_its_time(web: Web, profile: Profile) -> None:
    size = profile.n("P21") * MB
    deadline = max(2, size / MB / 2)
    with scales(web) as weighing:
        found = {name: weighing.weigh(name, size, deadline) for name in HOSTILE}
    bad = {
        name: cost
        for name, cost in found.items()
        if cost["grown"] > MOST_MB or cost["seconds"] > deadline + 1 or cost["pause"] > 1
    }
    most = max(found, key=lambda name: float(found[name]["grown"]))
    profile.record("P21", len(found) - len(bad), len(found), bad=bad, most={most: found[most]["grown"]})


def test_the_growth_of_a_reader_without_bounds_is_seen(web: Web) -> None:
    """The negative control: the scales work."""
    with scales(web, "unbounded") as weighing:
        assert weighing.weigh("lists in lists", 2 * MB, 20)["grown"] > 2 * MOST_MB


class Probe(threading.Thread):
    """Asks for the health of a function again and again; `longest` is how long an answer took."""

    def __init__(self, served: Served) -> None:
        super().__init__(daemon=True)
        self._served, self._over = served, threading.Event()
        self.longest, self.answers = 0.0, 0

    def run(self) -> None:
        while not self._over.wait(0.05):
            began = time.monotonic()
            assert self._served.hit("/health/live", method="GET").status_code == 200
            self.longest = max(self.longest, time.monotonic() - began)
            self.answers += 1

    def stop(self) -> None:
        self._over.set()
        self.join()


@pytest.mark.timeout(3600)
def test_one_run_with_all_hostile_feeds_stores_the_healthy_ones_and_answers_the_probe(
    web: Web, serve: Serve, room: Room, tmp_path: Path, profile: Profile
) -> None:
    size = profile.n("P31 feeds") * MB
    web.scripts = {f"/{place}": sending(hostile, size) for place, hostile in enumerate(HOSTILE.values())}
    web.scripts["/acme"] = answer(board(job(1), job(2)))
    kinds = {f"/{place}": hostile.kind for place, hostile in enumerate(HOSTILE.values())} | {"/acme": "greenhouse"}
    entries = (
        f'[[source]]\nname = "{path[1:]}"\nkind = "{kind}"\nurl = "{web.url(path)}"\nallow_private = true\n'
        for path, kind in kinds.items()
    )
    (tmp_path / "sources.toml").write_text("\n".join(entries))
    served = serve(
        room.dsn,
        target="refresh_opening_signals",
        source=FUNCTIONS / "main.py",
        CRONLEASE_SOURCES=str(tmp_path / "sources.toml"),
        CRONLEASE_LEASE="10m",
    )
    (worker,) = workers(served)
    probe = Probe(served)
    probe.start()
    outcome = served.hit(timeout=600).json()
    probe.stop()
    status = Path(f"/proc/{worker}/status").read_text()
    most = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    checks = {
        "the run ended": outcome["status"] == "partial",
        "the healthy source is stored": room.query("select count(*) from openings where source = 'acme' and open")
        == [(2,)],
        "the instance is not full": most <= INSTANCE_MB,
        "the probe was answered": probe.answers > 0 and probe.longest <= 1,
    }
    profile.record("P31 feeds", sum(checks.values()), len(checks), checks=checks, most=most, probe=probe.longest)
