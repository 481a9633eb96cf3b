"""A run is hurt at a point, another one takes over and commits, and the first one comes back to life."""

from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from tests.faults.profile import Profile
from tests.faults.scene import IDLE_SECONDS, LEASE_SECONDS, OPENINGS, Hit, Point, Scene, until_it_runs

# The seven before the COMMIT is in the server; after it there is nothing to lose.
BEFORE_COMMIT = ("claimed", "fetching", "staging", "begun", "fenced", "writing", "committing")
POINTS = (*BEFORE_COMMIT, "committed")


class Fault(NamedTuple):
    """What is done to the victim, and what ends it and lets the message that is held at the point go on."""

    hurt: Callable[[], None]
    heal: Callable[[Point], None]
    # What arrives afterwards may come after the victim's own time for it.
    late: bool = True


def paused(scene: Scene) -> Fault:
    """Resumed, the victim finds what has arrived meanwhile."""

    def heal(point: Point) -> None:
        try:
            point.deliver()
        finally:
            scene.resume()

    return Fault(scene.pause, heal, late=False)


def written(scene: Scene) -> tuple[object, ...]:
    """All that a stale run could spoil."""
    return scene.batch(), scene.row("fence, run_count, next_run_at, locked_by, last_status"), scene.runs()


def violations(scene: Scene, name: str, fault: Fault, *, ageing: bool = True) -> list[str]:
    point = Point(scene, name)
    hit = Hit(scene.victim)
    point.wait()
    fault.hurt()
    try:
        # Aged, the row has run out while the victim's own clock still believes in the lease.
        if ageing and name != "committed":
            scene.expire()
        scene.make_due()
        took_over = until_it_runs(lambda: scene.other.hit().json(), LEASE_SECONDS + IDLE_SECONDS + 5)
        before = written(scene)
    finally:
        fault.heal(point)
    status, answer = hit.answer()
    told: list[tuple[int, str | None]] = [(200, None) if name == "committed" else (409, "lease_lost")]
    if name == "claimed" and fault.late and not ageing:
        # The answer to the claim came after the time for it: that is a skip, whatever it says.
        told += [(200, "schedule_read_error")]
    history = ["success", "success"] if name == "committed" else ["abandoned", "success"]
    checks = {
        "the other run ended well": took_over["status"] == "success",
        "nothing was written after it": written(scene) == before,
        "the openings are of one fetch": scene.batch()[0] == OPENINGS and len(scene.batch()[1]) == 1,
        "each run is in the history as it was": sorted(scene.runs().values()) == history,
        f"the victim's run said {told}, not {status} {answer['reason']}": (status, answer["reason"]) in told,
    }
    scene.make_due()
    checks["the victim's next hit is a run"] = scene.victim.hit().json().get("status") == "success"
    return [f"{name}: {check}" for check, holds in checks.items() if not holds]


def record(profile: Profile, promise: str, seen: list[list[str]]) -> None:
    profile.record(promise, seen.count([]), len(seen), violations=list(chain(*seen)))
