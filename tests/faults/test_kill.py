"""P5: kill -9 anywhere leaves a state from which the next due hit recovers by itself, and nothing half-written."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import psycopg
import pytest

from tests.faults.profile import Profile
from tests.faults.scene import LEASE_SECONDS, OPENINGS, Hit, Point, Scene, mutant, sql, until_it_runs
from tests.integration.conftest import wait_until

HISTORY = {"asking": ["success"], "committed": ["success", "success"]}
POINTS = ("asking", "claimed", "fetching", "staging", "merging", "committing", "committed")


@contextmanager
def stopped_at(scene: Scene, name: str) -> Iterator[Hit]:
    """A hit whose run has come to that point and can go no further."""
    if name == "merging":
        # Somebody else has one of the openings: the merge waits for it.
        with psycopg.connect(scene.room.dsn) as conn:
            conn.execute("select from opening_signals where external_id = '20' for update")
            hit = Hit(scene.victim)
            waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
            wait_until(lambda: bool(scene.room.query(waiting)))
            yield hit
        return
    point = Point(scene, name)
    hit = Hit(scene.victim)
    point.wait()
    yield hit
    point.drop()


def violations(scene: Scene, name: str, *, ageing: bool = True, patience: float = LEASE_SECONDS + 3) -> list[str]:
    assert scene.other.hit().json()["status"] == "success"
    scene.make_due()
    with stopped_at(scene, name):
        scene.kill_worker()
    whole = is_whole(scene)
    scene.make_due()
    if ageing:
        scene.expire()
    began = time.monotonic()
    try:
        recovered = until_it_runs(lambda: scene.other.hit().json(), patience)
    except AssertionError:
        return [f"{name}: recovered by itself"]
    took = time.monotonic() - began
    leftovers = scene.room.query("select 1 from opening_staging union all select 1 from opening_staging_pages")
    checks = {
        "nothing was half-written": whole and is_whole(scene),
        "the next hit ended well": recovered["status"] == "success",
        "it came within the lease and one hit": took <= LEASE_SECONDS + 2,
        "the history says what happened": sorted(scene.runs().values())
        == sorted([*HISTORY.get(name, ["success", "abandoned"]), "success"]),
        "nothing is stuck": scene.row("locked_by, failures") == (None, 0) and not leftovers,
    }
    return [f"{name}: {check}" for check, holds in checks.items() if not holds]


def is_whole(scene: Scene) -> bool:
    count, fetches = scene.batch()
    return count == OPENINGS and len(fetches) == 1


@pytest.mark.timeout(7200)
def test_kill_9_anywhere_recovers_by_itself(scene: Scene, profile: Profile) -> None:
    seen = []
    for number in range(profile.n("P5")):
        for name in POINTS:
            scene.reset()
            # By default one point waits for the lease to run out in its own time, so that this is seen too.
            seen.append(violations(scene, name, ageing=number == 0 and name != "fetching"))
    profile.record("P5", seen.count([]), len(seen), violations=list(chain(*seen)))


def test_a_lease_that_never_runs_out_is_not_recovered(scene: Scene) -> None:
    """The negative control of the recovery."""
    shipped = sql("refresh_skip_reason")
    scene.room.query(mutant(shipped, "locked_until > p_at", "locked_until is not null"))
    try:
        assert violations(scene, "fetching", patience=1) == ["fetching: recovered by itself"]
    finally:
        scene.room.query(shipped)


@pytest.mark.thorough
def test_a_job_that_commits_in_halves_is_seen_half_written(scene: Scene) -> None:
    """The negative control of the batches."""
    scene.victim, shipped = scene.start(scene.proxy.dsn, Path(__file__).with_name("halves.py")), scene.victim
    try:
        scene.reset()
        assert "begun: nothing was half-written" in violations(scene, "begun")
    finally:
        scene.victim = shipped
