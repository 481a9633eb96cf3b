"""P21: whatever a feed holds, the memory and the time that reading it takes are bounded."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import clean_environment
from tests.faults.hostile_feeds import HOSTILE, sending
from tests.faults.profile import Profile
from tests.integration.web import Web, web

__all__ = ["web"]

MOST_MB = 32
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


@pytest.mark.timeout(3600)
def test_a_hostile_feed_costs_little_memory_and_no_more_than_its_time(web: Web, profile: Profile) -> None:
    size = profile.n("P21") * MB
    deadline = max(3, size / MB)
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
        assert weighing.weigh("lists in lists", 6 * MB, 20)["grown"] > 2 * MOST_MB
