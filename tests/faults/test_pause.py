"""P3 and P4: a process paused past its lease and resumed writes nothing, and does not block others for long."""

import time

import psycopg
import pytest

from tests.faults.profile import Profile
from tests.faults.scene import IDLE_SECONDS, IN_TRANSACTION, UNFENCED, Hit, Point, Scene, until_it_runs
from tests.faults.takeover import POINTS, paused, record, violations


@pytest.mark.timeout(3600)
def test_a_paused_holder_cannot_write(scene: Scene, profile: Profile) -> None:
    seen = []
    for number in range(profile.n("P3")):
        for name in POINTS:
            scene.reset()
            seen.append(violations(scene, name, paused(scene), ageing=number % 2 == 0))
    record(profile, "P3", seen)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["claimed", "fetching"])
def test_a_pause_that_really_outlasts_the_lease_ends_the_same(scene: Scene, name: str) -> None:
    assert violations(scene, name, paused(scene), ageing=False) == []


def test_without_the_fence_the_paused_holder_does_write(scene: Scene) -> None:
    """The negative control."""
    scene.room.query(UNFENCED)
    found = violations(scene, "begun", paused(scene))
    assert "begun: nothing was written after it" in found


@pytest.mark.timeout(3600)
def test_paused_in_its_transaction_it_blocks_others_no_longer_than_the_timeout(
    scene: Scene, profile: Profile
) -> None:
    kept = trials = 0
    longest = 0.0
    for number in range(profile.n("P4")):
        scene.reset()
        before = Point(scene, "begun")
        hit = Hit(scene.victim)
        before.wait()
        # The lease runs out now: from here on the row lock alone keeps others out.
        scene.expire()
        point = Point(scene, IN_TRANSACTION[1 + number % 3])
        before.release()
        point.wait()
        scene.pause()
        began = time.monotonic()
        took_over = until_it_runs(lambda: scene.other.hit().json(), 20)
        longest = max(longest, time.monotonic() - began)
        scene.resume()
        point.release()
        trials += 1
        kept += took_over["status"] == "success" and hit.answer()[1]["reason"] == "lease_lost"
    profile.record("P4", kept, trials, longest_seconds=round(longest, 2), timeout_seconds=IDLE_SECONDS)
    assert longest <= IDLE_SECONDS + 1


@pytest.mark.thorough
def test_a_transaction_without_that_timeout_blocks_others_for_longer(scene: Scene) -> None:
    """The negative control."""
    with psycopg.connect(scene.room.dsn) as conn:
        conn.execute("select from refresh_schedule for no key update")
        with pytest.raises(AssertionError):
            until_it_runs(lambda: scene.other.hit().json(), IDLE_SECONDS + 1)
