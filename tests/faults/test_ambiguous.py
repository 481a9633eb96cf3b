"""P8: a commit whose reply or request is lost is resolved, not guessed: the answer is what the database says."""

from itertools import chain

import pytest

from tests.acceptance.conftest import Serve, Served
from tests.faults.profile import Profile
from tests.faults.scene import FENCED, Scene, mutant, sql

UNKNOWN = "commit_unknown"
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


FINISH = b"finish_refresh_run"
# What is lost of an end that is a transaction by itself, how many connections are then refused, and what is answered.
# An end that says nothing but itself is sent again, and a database that refuses a few connections is tried again.
ENDS = [("request", 0, None), ("reply", 0, None), ("request", 1, None), ("reply", 9, None), ("reply", 99, UNKNOWN)]


def untruths(scene: Scene, served: Served, what: str, refused: int, reason: str | None) -> list[str]:
    scene.proxy.refuse_next = refused
    scene.proxy.lose(FINISH, what)
    answer = served.hit(json={"force": True}).json()
    scene.proxy.refuse_next = 0
    ((status, lock),) = scene.room.query(
        "select r.status, s.locked_by from refresh_runs r join refresh_schedule s using (function_name)"
        f" where r.request_id = '{answer['request_id']}'"
    )
    checks = {
        f"it is answered as {reason}, not as {answer['reason']}": answer["reason"] == reason,
        "the answer is what the database says": answer["status"] == (None if reason == UNKNOWN else status),
        "the lease is free": lock is None,
    }
    return [f"{what}, {refused} refused: {check}" for check, holds in checks.items() if not holds]


@pytest.mark.timeout(3600)
def test_a_lost_end_of_a_run_that_writes_nothing_else_is_asked_about_too(
    scene: Scene, serve: Serve, profile: Profile
) -> None:
    served = serve(scene.proxy.dsn, target="tell", CRONLEASE_POOLER="transaction")
    assert served.force()["status"] == "success"
    seen = [untruths(scene, served, *end) for end in ENDS * (profile.n("P8") // 5)]
    profile.record("P8 bare", seen.count([]), len(seen), violations=list(chain(*seen)))


def test_a_database_that_forgets_who_asked_is_seen(scene: Scene) -> None:
    """The negative controls: a claim that is not let through again, an end that is not remembered."""
    shipped = sql("refresh_skip_reason")
    scene.room.query(mutant(shipped, "locked_by = p_request_id::text", "locked_by is null and false"))
    found = violations(scene, CLAIM, "reply", "success")
    assert f"{CLAIM!r} reply: the answer is what the database says" in found
    scene.room.query(shipped)
    scene.reset()
    scene.room.query(mutant(FENCED, "        and r.fence = v_end.fence\n", "        and false\n"))
    found = violations(scene, COMMIT, "reply", "success")
    assert found == [f"{COMMIT!r} reply: the answer is what the database says"]
