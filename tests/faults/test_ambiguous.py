"""P8: a commit whose reply or request is lost is resolved, not guessed: the answer is what the database says."""

from itertools import chain

import pytest

from tests.faults.profile import Profile
from tests.faults.scene import FENCED, Scene, mutant, sql

CLAIM, COMMIT = b"acquire_refresh_lock", b"commit\0"
# What is lost, and how the run then ends: only a commit that never reached the server did not happen.
KINDS = [
    (CLAIM, "request", "success"),
    (CLAIM, "reply", "success"),
    (COMMIT, "request", "failed"),
    (COMMIT, "reply", "success"),
]


def violations(scene: Scene, text: bytes, what: str, status: str) -> list[str]:
    runs, fence, fetches = scene.runs(), scene.row("fence")[0], scene.batch()[1]
    scene.proxy.lose(text, what)
    lost = scene.proxy.lost
    answer = scene.victim.hit(json={"force": True}).json()
    new = {key: value for key, value in scene.runs().items() if key not in runs}
    last = [f"Baker {scene.feed.asked}"]
    checks = {
        "a message was lost": scene.proxy.lost == lost + 1,
        "there was one run, and it is the one that answered": new == {answer["request_id"]: status},
        "the answer is what the database says": answer.get("status") == status,
        "it was claimed once": scene.row("fence, locked_by") == (fence + 1, None),
        "what it wrote is there if it says so": scene.batch()[1] == (last if status == "success" else fetches),
    }
    return [f"{text!r} {what}: {check}" for check, holds in checks.items() if not holds]


@pytest.mark.timeout(3600)
def test_a_lost_message_is_asked_about_never_guessed(scene: Scene, profile: Profile) -> None:
    seen = [violations(scene, *kind) for kind in KINDS * profile.n("P8")]
    profile.record("P8", seen.count([]), len(seen), violations=list(chain(*seen)))


def test_a_wall_that_forgets_who_asked_is_seen(scene: Scene) -> None:
    """The negative controls: a claim that is not let through again, an end that is not remembered."""
    shipped = sql("refresh_skip_reason")
    scene.room.query(mutant(shipped, "locked_by = p_request_id::text", "locked_by is null and false"))
    found = violations(scene, CLAIM, "reply", "success")
    assert f"{CLAIM!r} reply: the answer is what the database says" in found
    scene.room.query(shipped)
    scene.reset()
    scene.room.query(mutant(FENCED, "      and r.fence = p_fence\n", "      and false\n"))
    found = violations(scene, COMMIT, "reply", "success")
    assert found == [f"{COMMIT!r} reply: the answer is what the database says"]
