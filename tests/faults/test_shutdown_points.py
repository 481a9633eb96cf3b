"""P6: SIGTERM at any point of a run is clean: no run is lost, none doubled, and no connection is left."""

import os
import signal
from contextlib import suppress
from itertools import chain
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.conftest import FUNCTIONS, Served
from tests.faults.processes import serving_as
from tests.faults.profile import Profile
from tests.faults.scene import NAME, OPENINGS, Hit, Point, Scene
from tests.integration.conftest import wait_until

pytestmark = pytest.mark.thorough

MAIN = FUNCTIONS / "main.py"
SERVERS = ("functions-framework", "uvicorn")
KINDS = (*SERVERS, "worker", "run-due")
POINTS = ("idle", "claimed", "fetching", "writing", "committing", "committed")
# How its run may have ended. On a slow machine it may be interrupted where it could have gone on.
ENDS = {
    "idle": [["success"]],
    "claimed": [["success"], ["interrupted"]],
    "fetching": [["interrupted"]],
    "writing": [["success"], ["interrupted"]],
    "committing": [["success"]],
    "committed": [["success"]],
}
DRAIN_SECONDS = 1.0
# For the last words of an interrupted run, its connections, and the server's own end.
END_SECONDS = 5


def ended_in_time(served: Served, patience: float) -> bool:
    with suppress(AssertionError):
        wait_until(lambda: served.process.poll() is not None, DRAIN_SECONDS + patience)
        return True
    return False


def arrive(scene: Scene, served: Served, point: Point | None) -> None:
    """Until the run is at the point; without one, until the process has nothing to do."""
    hit = Hit(served) if served.url else None
    if point is not None:
        point.wait()
    elif hit is not None:
        hit.answer()
    else:
        wait_until(lambda: scene.connections("victim") > 0)


def violations(
    scene: Scene, kind: str, name: str, log: Path, *, source: Path = MAIN, patience: float = END_SECONDS
) -> list[str]:
    """TERM while a run is at that point; what is held there goes on once the process has been told, except a feed
    that never answers."""
    # What is due is claimed by another function.
    held_at = "dispatched" if name == "claimed" and kind not in SERVERS else name
    point = None if name == "idle" else Point(scene, held_at)
    if name == "idle" and kind == "worker":
        scene.room.query("update refresh_schedule set next_run_at = clock_timestamp() + interval '1 hour'")
    environment = scene.environment | {
        "DATABASE_URL": make_conninfo(scene.proxy.dsn, application_name="victim"),
        "CRONLEASE_LEASE": "10s",
        "CRONLEASE_DRAIN_SECONDS": str(DRAIN_SECONDS),
        "CRONLEASE_DATA_DIR": str(log.parent),
        "CRONLEASE_LOG_LEVEL": "INFO",
    }
    with serving_as(kind, source, NAME, log, **environment) as served:
        arrive(scene, served, point)
        os.kill(served.process.pid, signal.SIGTERM)
        if point is not None and name != "fetching":
            wait_until(lambda: served.process.poll() is not None or "shutdown_started" in log.read_text())
            point.release()
        in_time = ended_in_time(served, patience)
    if point is not None:
        point.drop()
    return [f"{kind} {name}: {each}" for each in unkept(scene, kind, name, in_time=in_time)]


def unkept(scene: Scene, kind: str, name: str, *, in_time: bool) -> list[str]:
    with suppress(AssertionError):
        wait_until(lambda: scene.connections("victim") == 0, 2)
    whole = OPENINGS, [f"Baker {scene.feed.asked}"]
    history = list(scene.runs().values())
    expected = ENDS[name] if (kind, name) != ("worker", "idle") else [[]]
    checks = {
        "it ended in time": in_time,
        "no connection is left": scene.connections("victim") == 0,
        "the lease is free": scene.row("locked_by") == (None,),
        f"its run ended as it says, not {history}": history in expected,
        "what it says was written is": scene.batch() == (whole if "success" in history else (0, [])),
    }
    if history == ["interrupted"]:
        checks["what was interrupted is due at once"] = scene.other.hit().json().get("status") == "success"
    return [check for check, holds in checks.items() if not holds]


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_is_told_to_stop_loses_and_doubles_no_run(
    scene: Scene, profile: Profile, kind: str, tmp_path: Path
) -> None:
    # With nothing to do, run-due is over before it can be told.
    points = [name for name in POINTS if (kind, name) != ("run-due", "idle")]
    if profile.name != "long":
        # One that can end in time; of the servers, one that cannot is in test_shutdown.py.
        chosen = profile.random(f"P6 {kind}").choice([name for name in points if name != "fetching"])
        points = [chosen] if kind in SERVERS else ["fetching", chosen]
    seen = []
    for number in range(profile.n("P6")):
        for name in points:
            scene.reset()
            seen.append(violations(scene, kind, name, tmp_path / f"{kind}-{name}-{number}.log"))
    profile.record(f"P6 {kind}", seen.count([]), len(seen), points=points, violations=list(chain(*seen)))


def test_a_process_that_does_not_listen_is_seen(scene: Scene, tmp_path: Path) -> None:
    """The negative control."""
    unhooked = Path(__file__).with_name("unhooked.py")
    found = violations(scene, "functions-framework", "fetching", tmp_path / "log", source=unhooked, patience=1)
    assert any("its run ended as it says" in each for each in found)
