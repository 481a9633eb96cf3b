"""P10 where nothing is acknowledged: the network of a run is cut, another one takes over, and it heals by itself."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.acceptance.conftest import JOBS, Serve, clean_environment
from tests.faults.island import Island, island
from tests.faults.processes import started
from tests.faults.profile import Profile
from tests.faults.scene import LEASE, until_it_runs
from tests.integration.conftest import Room, wait_until
from tests.proxy import Proxy, proxied

# Where the run is when the network goes: at work, its row just locked, its COMMIT on the way; what it says then.
POINTS = {
    "at work": (b"acquire_refresh_lock", "reply", ["lease_lost"]),
    "fenced": (b"assert_lease", "reply", ["lease_lost"]),
    "committing": (b"commit\0", "request", ["lease_lost", "commit_unknown"]),
}


def trigger(away: Island, sleep: int) -> Sequence[str]:
    """One hit, from the island."""
    verb = ["trigger", "--json", "--force", "--source", str(JOBS), "--target", "tick"]
    return [*away.way, sys.executable, "-m", "cronlease.cli.main", *verb, "--args", json.dumps({"sleep": sleep})]


def environment(proxy: Proxy) -> dict[str, str]:
    return {"DATABASE_URL": proxy.dsn, "CRONLEASE_LEASE": LEASE, "CRONLEASE_POOLER": "transaction"}


@pytest.mark.parametrize("name", POINTS)
def test_a_run_whose_cable_is_pulled_writes_nothing_and_ends_by_itself(
    serve: Serve, room: Room, tmp_path: Path, profile: Profile, name: str
) -> None:
    if name != "fenced" and profile.name != "long":
        pytest.skip("for --profile long")
    text, what, told = POINTS[name]
    room.query("create table effect (request_id uuid)")
    with island() as away, proxied(room.dsn, away.listener()) as proxy:
        other = serve(room.dsn, CRONLEASE_LEASE=LEASE)
        assert other.hit().json()["status"] == "success"
        held = proxy.hold(text, what)
        sleep = 60 if name == "at work" else 0
        with started(trigger(away, sleep), tmp_path / "log", **environment(proxy)) as victim:
            assert held.reached.wait(20), victim.log_file.read_text()
            if name == "at work":
                held.release()
                assert held.settled.wait(20)
            away.cut()
            took_over = until_it_runs(lambda: other.force(), 15)
            assert took_over["status"] == "success"
            held.release()
            # Still cut off: nobody tells it anything, it knows by its own clock, or once keepalives go unanswered.
            wait_until(lambda: victim.process.poll() is not None, 45)
            answer = next(line for line in victim.log() if "skipped" in line)
        away.heal()
        assert answer["reason"] in told, answer
        assert room.query("select count(*) from effect") == [(2,)]
        assert room.runs() == ["success", "abandoned", "success"]
        healed = subprocess.run(
            trigger(away, 0), env=clean_environment(**environment(proxy)), capture_output=True, timeout=30, check=True
        )
        assert json.loads(healed.stdout)["status"] == "success"
