"""P12: a run that hangs frees its lease, whichever way it hangs: it is taken over within max run plus lease."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.acceptance.conftest import Serve, Served, kill
from tests.faults.processes import workers
from tests.faults.profile import Profile
from tests.faults.scene import Hit
from tests.integration.conftest import Room, wait_until

pytestmark = pytest.mark.thorough

SOURCE = Path(__file__).with_name("hung.py")
KINDS = ("waits", "sleeps", "blocks")
LEASE, MAX_RUN = 1, 2
# For the hits that find it free, and the run itself.
SLACK = 1.5


@pytest.fixture
def room(dsn: str) -> Room:
    room = Room(dsn)
    room.query("create table effect (function_name text, request_id uuid)")
    return room


TAKEN_OVER = """
select hung.function_name, extract(epoch from after.finished_at - hung.started_at)::float
from refresh_runs hung
join refresh_runs after
  on after.function_name = hung.function_name
  and after.fence > hung.fence
  and after.status = 'success'
where hung.status <> 'success'
"""


def serve_all(serve: Serve, room: Room) -> dict[str, Served]:
    """A process for each way to hang; the one that lingers may be as old as it likes."""
    limits = {"CRONLEASE_LEASE": f"{LEASE}s", "CRONLEASE_BACKOFF": "0s", "CRONLEASE_DISPATCH_PAUSE": "0s"}
    return {
        kind: serve(room.dsn, source=SOURCE, target=kind, CRONLEASE_MAX_RUN=longest, **limits)
        for kind, longest in {**dict.fromkeys(KINDS, f"{MAX_RUN}s"), "lingers": "1h", "other": "1m"}.items()
    }


def hang(room: Room, servers: dict[str, Served], kinds: Sequence[str]) -> None:
    for kind in kinds:
        Hit(servers[kind], args={"hang": True}, force=True)
        held = f"select 1 from refresh_schedule where function_name = '{kind}' and locked_by is not null"
        wait_until(lambda held=held: bool(room.query(held)))  # type: ignore[misc]


@pytest.mark.timeout(1800)
def test_a_hung_run_is_taken_over_within_max_run_and_lease(serve: Serve, room: Room, profile: Profile) -> None:
    servers = serve_all(serve, room)
    hang(room, servers, ["lingers"])
    ages: list[float] = []
    for number in range(profile.n("P12")):
        if number:
            # What blocks its process must be killed; the others' processes serve on.
            (worker,) = workers(servers["blocks"])
            os.kill(worker, signal.SIGKILL)
            room.query("delete from refresh_runs where function_name <> 'lingers'; delete from effect")
            room.query("update refresh_schedule set next_run_at = null where function_name <> 'lingers'")
        hang(room, servers, KINDS)

        def taken_over() -> bool:
            servers["other"].hit("/run-due")
            return len(room.query(TAKEN_OVER)) >= len(KINDS)

        wait_until(taken_over, 20)
        ages += [age for _, age in room.query(TAKEN_OVER)]
    # A process that is blocked does not hear that it is to stop.
    kill(servers["blocks"].process)
    # The negative control: without its limit the heartbeat would keep a hung run for ever.
    assert room.query("select status from refresh_runs where function_name = 'lingers'") == [("running",)]
    kept = sum(age <= MAX_RUN + LEASE + SLACK for age in ages)
    profile.record("P12", kept, len(ages), longest_seconds=round(max(ages), 2))
    assert len(ages) == len(KINDS) * profile.n("P12")
