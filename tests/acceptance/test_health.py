"""GET /health/schedules at a real server: red when a schedule is not well, and cheap whoever asks."""

import pytest

from tests.acceptance.callers import SECRETS
from tests.acceptance.conftest import Serve, Served
from tests.faults.profile import thorough
from tests.integration.conftest import Room, wait_until

LATE = "late_at = clock_timestamp(), next_run_at = clock_timestamp() - interval '1 h'"
OPEN = "failures = 9, breaker_until = clock_timestamp() + interval '1 h'"


@pytest.fixture
def room(dsn: str) -> Room:
    room = Room(dsn)
    room.query("create table effect (request_id uuid)")
    return room


def health(served: Served, **headers: str) -> tuple[int, dict[str, object]]:
    answer = served.hit("/health/schedules", method="GET", headers=headers)
    body = answer.json()
    assert body.pop("request_id") == answer.headers["X-Request-Id"]
    return answer.status_code, body


def unwell(room: Room, changes: str) -> None:
    """And everything else well."""
    room.query("update refresh_schedule set late_at = null, failures = 0, breaker_until = null, next_run_at = null")
    room.query(f"update refresh_schedule set {changes}")


def test_it_is_red_with_names_for_checked_callers_and_remembered(serve: Serve, room: Room) -> None:
    served = serve(room.dsn, CRONLEASE_AUTH="token", CRONLEASE_TOKEN=SECRETS[0])
    known = {"Authorization": f"Bearer {SECRETS[0]}"}
    served.hit(headers=known)
    unwell(room, LATE)
    assert health(served) == (503, {"healthy": False, "late": 1, "failing": 0, "breaker_open": 0})
    assert health(served, Authorization="Bearer wrong-wrong-wrong")[1]["late"] == 1
    # From here on the database could not even be asked.
    room.query("alter function read_refresh_health() rename to gone")
    assert health(served, **known) == (503, {"healthy": False, "late": ["tick"], "failing": [], "breaker_open": []})


def test_it_is_green_when_all_is_well(serve: Serve, room: Room) -> None:
    served = serve(room.dsn, CRONLEASE_AUTH="none")
    served.hit()
    assert health(served) == (200, {"healthy": True, "late": 0, "failing": 0, "breaker_open": 0})


@pytest.mark.parametrize(
    ("changes", "kind"), [("failures = 3", "failing"), thorough(OPEN, "breaker_open"), thorough(LATE, "late")]
)
def test_each_kind_of_trouble_is_named_to_a_person_on_this_machine(
    serve: Serve, room: Room, changes: str, kind: str
) -> None:
    served = serve(room.dsn)
    served.hit()
    unwell(room, changes)
    status, body = health(served)
    assert (status, body[kind]) == (503, ["tick"])


def test_a_database_that_cannot_be_read_is_red_too(serve: Serve, room: Room) -> None:
    served = serve("postgresql://nobody@127.0.0.1:1/nothing")
    assert health(served) == (503, {"healthy": False, "reason": "schedule_read_error"})
    assert served.hit("/health/live", method="GET").status_code == 200


def test_an_empty_database_is_well_and_one_that_is_not_migrated_is_not(serve: Serve, empty_dsn: str) -> None:
    served = serve(empty_dsn)
    status, body = health(served)
    assert (status, body["healthy"], body["late"]) == (200, True, [])
    assert "nothing here yet" in str(body["hint"])
    room = Room(empty_dsn)
    room.query("create table refresh_schedule (id integer)")
    served = serve(empty_dsn)
    assert health(served) == (503, {"healthy": False, "reason": "schedule_read_error"})
    wait_until(lambda: any("run `cronlease migrate` as the owner" in line["message"] for line in served.log()))
