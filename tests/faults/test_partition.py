"""P10: a partition in the middle of a run heals by itself: the run that was cut off writes nothing."""

import pytest

from tests.faults.profile import Profile
from tests.faults.scene import UNFENCED, Point, Scene
from tests.faults.takeover import POINTS, Fault, record, violations

pytestmark = pytest.mark.thorough


def stalled(scene: Scene) -> Fault:
    """What was sent meanwhile is delivered late."""

    def heal(point: Point) -> None:
        scene.proxy.heal()
        point.release()

    return Fault(scene.proxy.stall, heal)


def swallowed(scene: Scene) -> Fault:
    """What was sent meanwhile is gone, and so are the connections it was sent on."""

    def hurt() -> None:
        scene.proxy.silent = True

    def heal(point: Point) -> None:
        scene.proxy.silent = False
        scene.proxy.cut()
        point.release()

    return Fault(hurt, heal)


@pytest.mark.timeout(3600)
def test_a_partition_that_delivers_late_heals_by_itself(scene: Scene, profile: Profile) -> None:
    seen = []
    for number in range(profile.n("P10")):
        for name in POINTS if profile.name == "long" else ("fetching", "begun", "committing"):
            scene.reset()
            ageing = number % 2 == 0
            seen.append(violations(scene, name, stalled(scene), ageing=ageing))
    record(profile, "P10 stalled", seen)


@pytest.mark.timeout(3600)
def test_a_partition_that_swallows_heals_by_itself(scene: Scene, profile: Profile) -> None:
    seen = []
    for _ in range(profile.n("P10")):
        for name in ("fetching", "committing") if profile.name == "long" else ("committing",):
            scene.reset()
            seen.append(violations(scene, name, swallowed(scene), ageing=False))
    record(profile, "P10 swallowed", seen)


def test_without_the_fence_a_late_delivery_is_written(scene: Scene) -> None:
    """The negative control."""
    scene.room.query(UNFENCED)
    found = violations(scene, "begun", stalled(scene))
    assert "begun: nothing was written after it" in found
