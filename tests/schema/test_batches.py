"""claim_due_refreshes, renew_refresh_locks and finish_refresh_runs: a batch is as safe as one.

Which rows a claim takes and which it leaves alone is in test_claim_due.py: claim_due_refresh is a batch of one.
"""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.schema.calls import (
    LEASE,
    WAITS,
    call_all,
    change,
    claim_due,
    claim_many,
    due_for,
    expire,
    finish,
    finish_many,
    holding,
    one,
    refused,
    row,
    run,
    runs,
    schedule,
    seconds_ahead,
)

MOST = 2**63 - 1
POISON = {"fence": f"fence = {MOST}", "run_count": f"run_count = {MOST}"}
"""A row that cannot be claimed, and one that cannot be finished: a number of it cannot grow."""


def some(number: int) -> list[UUID]:
    return [uuid4() for _ in range(number)]


def names(claims: list[Any]) -> list[str]:
    return [claim.function_name for claim in claims]


def end(claim: Any, status: str = "success", **more: Any) -> dict[str, Any]:
    who = {"function_name": claim.function_name, "request_id": claim.locked_by, "fence": claim.fence}
    return {**who, "status": status, **more}


def due(conn: psycopg.Connection, number: int = 4) -> list[str]:
    """So many due rows, the oldest first."""
    for place in range(number):
        due_for(conn, f"row {place}", number - place, f"action {place % 2}")
    return [f"row {place}" for place in range(number)]


def test_a_batch_takes_the_oldest_first_each_with_its_own_lease_fence_and_history(conn: psycopg.Connection) -> None:
    wanted = due(conn, 5)
    requests = some(3)

    claims = claim_many(conn, requests, "action 0", "action 1")

    assert names(claims) == wanted[:3]
    assert [claim.locked_by for claim in claims] == [str(request) for request in requests]
    for claim, request in zip(claims, requests, strict=True):
        assert (claim.acquired, claim.reason, claim.fence, claim.due_in) == (True, None, 1, None)
        assert row(conn, claim.function_name)["locked_by"] == str(request)
        assert (run(conn, request)["function_name"], run(conn, request)["fence"]) == (claim.function_name, 1)
        assert (claim.details["function_name"], claim.details["attempt"]) == (claim.function_name, 1)
    assert names(claim_many(conn, some(5), "action 0", "action 1")) == wanted[3:], "fewer than it asked for"
    assert runs(conn) == 5


def test_a_batch_of_one_answers_what_the_single_claim_does(conn: psycopg.Connection) -> None:
    due(conn, 2)

    (many,) = claim_many(conn, some(1))
    single = claim_due(conn)

    assert many._fields == (*single._fields, "details")
    for nothing in (claim_many(conn, some(9))[0][:-1], tuple(claim_due(conn))):
        assert nothing[:2] == (False, "not_due")


def test_each_action_of_a_batch_has_its_own_lease_and_backoff(conn: psycopg.Connection) -> None:
    actions, given = ("short", "long", "other"), [timedelta(minutes=1), timedelta(hours=1), None]
    for name in actions:
        schedule(conn, name)

    claim_many(conn, some(3), *actions, leases=given, backoffs=given, lease=2 * LEASE, backoff=LEASE)

    for name, lease, backoff in (("short", 60, 60), ("long", 3600, 3600), ("other", 600, 300)):
        assert lease - 20 < seconds_ahead(conn, "locked_until", name) <= lease, name
        # A backoff in advance, which rows have one at a time.
        change(conn, "abandoned = 2", name)
        expire(conn, name)
        claim_many(conn, some(3), *actions, leases=given, backoffs=given, lease=2 * LEASE, backoff=LEASE)
        assert backoff - 20 < seconds_ahead(conn, "next_run_at", name) <= backoff, name


def test_a_batch_has_at_most_one_row_whose_last_two_runs_never_finished(conn: psycopg.Connection) -> None:
    """It may kill its process, and with it the runs beside it: of two that are in doubt nobody could say which."""
    due(conn, 6)
    change(conn, "abandoned = 2", "row 1")
    change(conn, "abandoned = 2", "row 2")
    assert names(claim_many(conn, some(5))) == ["row 0", "row 1", "row 3", "row 4", "row 5"]
    for name in ("row 0", "row 3", "row 4"):
        expire(conn, name)
    change(conn, "abandoned = 1", "row 4")

    assert names(claim_many(conn, some(6), in_doubt=False)) == ["row 0", "row 3"]
    assert names(claim_many(conn, some(6), in_doubt=False)) == [None], "whoever runs one waits for its end"
    assert names(claim_many(conn, some(6))) == ["row 2"]
    assert names(claim_many(conn, some(6))) == ["row 4"]


def test_requests_that_ask_again_get_what_they_hold_and_nothing_new(conn: psycopg.Connection) -> None:
    due(conn, 6)
    requests = some(4)
    first = claim_many(conn, requests[:3])

    again = claim_many(conn, requests)

    assert names(again) == names(first)
    assert [claim.fence for claim in again] == [1, 1, 1]
    assert all(new.locked_until > old.locked_until for new, old in zip(again, first, strict=True))
    assert [claim.details["function_name"] for claim in again] == names(first)
    finish(conn, requests[0], 1, function_name=first[0].function_name)
    expire(conn, first[1].function_name)
    assert names(claim_many(conn, some(1))) == [first[1].function_name], "it is taken over"
    assert names(claim_many(conn, requests)) == [first[2].function_name]
    finish(conn, requests[2], 1, function_name=first[2].function_name)
    (nothing,) = claim_many(conn, requests)
    assert (nothing.acquired, nothing.reason, nothing.due_in) == (False, "locked", timedelta(0))
    assert (runs(conn), row(conn, "row 3")["fence"]) == (4, 0)


def test_requests_that_ask_again_when_nothing_else_is_due_get_what_they_hold(conn: psycopg.Connection) -> None:
    wanted = due(conn, 2)
    requests = some(3)
    for _ in range(2):
        assert names(claim_many(conn, requests)) == wanted
    assert runs(conn) == 2


def asked_again(dsn: str, conn: psycopg.Connection, first: list[UUID], again: list[UUID]) -> list[Any]:
    """What is answered to the second question, which waits for the first claim's commit."""
    claim = "select function_name from public.claim_due_refreshes(p_request_ids => %s)"
    with holding(dsn, claim, [first]) as other, ThreadPoolExecutor() as threads:
        second = threads.submit(claim_many, conn, again)
        while not one(other, WAITS, [conn.info.backend_pid]):
            assert not second.done(), second.result()
        other.commit()
        return second.result()


@pytest.mark.parametrize("number", [3, 6])
@pytest.mark.parametrize("order", [1, -1])
def test_requests_that_ask_again_while_their_first_claim_is_on_its_way_get_its_rows(
    dsn: str, conn: psycopg.Connection, number: int, order: int
) -> None:
    """The client lost its connection, and the server has not noticed: it commits while the second question waits."""
    due(conn, number)
    requests = some(3)
    assert names(asked_again(dsn, conn, requests, requests[::order])) == ["row 0", "row 1", "row 2"]
    assert runs(conn) == 3


def test_requests_that_ask_again_among_others_have_one_row_each(dsn: str, conn: psycopg.Connection) -> None:
    due(conn, 6)
    requests = sorted(some(4))
    assert names(asked_again(dsn, conn, requests[1:], requests)) == ["row 0", "row 1", "row 2", "row 3"]
    assert runs(conn) == 4


def test_requests_that_ask_again_in_another_order_do_not_block_each_other(dsn: str, conn: psycopg.Connection) -> None:
    due(conn, 8)
    requests = some(8)
    claim_many(conn, requests)

    def ask(order: int) -> set[str]:
        with psycopg.connect(dsn, autocommit=True) as mine:
            for _ in range(20):
                held = names(claim_many(mine, requests[::order]))
            return set(held)

    with ThreadPoolExecutor() as threads:
        assert list(threads.map(ask, [1, -1, 1, -1])) == [{f"row {place}" for place in range(8)}] * 4


def test_requests_that_ask_again_wait_for_a_lock_that_is_about_to_be_free(dsn: str, conn: psycopg.Connection) -> None:
    """A commit lets go of its locks one by one, after its rows can be seen."""
    due(conn, 2)
    requests = some(2)
    claim_many(conn, requests)
    key = "public.refresh_lock_key('claim')"
    lock = f"select pg_advisory_xact_lock({key}, id) from public.refresh_schedule where function_name = 'row 0'"
    with holding(dsn, lock) as first, ThreadPoolExecutor() as threads:
        again = threads.submit(claim_many, conn, requests)
        while not one(first, WAITS, [conn.info.backend_pid]):
            assert not again.done(), again.result()
        first.commit()
        assert names(again.result()) == ["row 0", "row 1"]


@pytest.mark.parametrize("number", [1, 2, 7])
def test_a_poisoned_row_is_passed_and_named_and_the_others_are_claimed(conn: psycopg.Connection, number: int) -> None:
    wanted = due(conn, 9)
    poisoned = [f"row {place}" for place in (0, 4, 8)][: 1 + number // 2]
    for name in poisoned:
        change(conn, POISON["fence"], name)
    said: list[str] = []
    conn.add_notice_handler(lambda notice: said.append(f"{notice.sqlstate} {notice.message_primary}"))

    claims: list[Any] = []
    while (more := claim_many(conn, some(number)))[0].acquired:
        claims += more

    assert names(claims) == [name for name in wanted if name not in poisoned]
    assert more[0].reason == "not_due", "nobody is to look again and again"
    assert {text for text in said if "CL006" in text} == {
        f'CL006 "{name}" cannot be claimed: bigint out of range' for name in poisoned
    }


def test_a_row_that_somebody_has_is_passed_by_a_batch_without_waiting(dsn: str, conn: psycopg.Connection) -> None:
    conn.execute("set statement_timeout = '1s'")
    due(conn, 5)
    lock = "select from public.refresh_schedule where function_name = any ('{row 0,row 2}') for no key update"
    with holding(dsn, lock):
        assert names(claim_many(conn, some(2))) == ["row 1", "row 3"]
        claim = "select public.claim_due_refreshes(p_request_ids => array[gen_random_uuid()])"
        with holding(dsn, claim):
            (nothing,) = claim_many(conn, some(3))
            assert (nothing.acquired, nothing.reason, nothing.due_in) == (False, "locked", timedelta(0))
    assert names(claim_many(conn, some(3))) == ["row 0", "row 2", "row 4"]


def test_a_batch_is_turned_away_from_a_row_by_its_advisory_lock(dsn: str, conn: psycopg.Connection) -> None:
    due(conn, 3)
    lock = "select pg_advisory_xact_lock(public.refresh_lock_key('claim'), id) from public.refresh_schedule"
    with holding(dsn, f"{lock} where function_name = 'row 1'"):
        assert names(claim_many(conn, some(3))) == ["row 0", "row 2"]
    assert names(claim_many(conn, some(3))) == ["row 1"]
    assert one(conn, "select count(*) from pg_locks where locktype = 'advisory'") == 0


def test_two_batches_at_the_same_time_share_no_row(dsn: str, conn: psycopg.Connection) -> None:
    wanted = due(conn, 60)

    def drain(_: int) -> list[str]:
        taken: list[str] = []
        with psycopg.connect(dsn, autocommit=True) as mine:
            while (claims := claim_many(mine, some(7)))[0].reason != "not_due":
                taken += names([claim for claim in claims if claim.acquired])
        return taken

    with ThreadPoolExecutor(4) as threads:
        taken = [name for names in threads.map(drain, range(4)) for name in names]

    assert sorted(taken) == sorted(wanted)
    assert runs(conn) == 60


@pytest.mark.parametrize("number", [0, 1001])
def test_a_batch_has_one_to_a_thousand_requests(conn: psycopg.Connection, number: int) -> None:
    with refused("22023"):
        claim_many(conn, some(number))


@pytest.mark.parametrize("requests", [None, [None], [UUID(int=1), None], [UUID(int=1), UUID(int=2), UUID(int=1)]])
def test_the_requests_of_a_batch_are_all_there_and_all_differ(conn: psycopg.Connection, requests: Any) -> None:
    due(conn, 3)
    with refused("22023"):
        claim_many(conn, requests)
    assert runs(conn) == 0


def test_the_ends_of_a_batch_are_each_written_as_their_own(conn: psycopg.Connection) -> None:
    due(conn, 3)
    well, badly, cut = claim_many(conn, some(3))

    answers = finish_many(
        conn,
        end(well, delay="10 minutes", fetched=3, inserted=2, planned_from="10m..15m"),
        end(badly, "failed", delay="1 hour", error="out of paper"),
        end(cut, "interrupted"),
    )

    assert [str(answer.request_id) for answer in answers] == [well.locked_by, badly.locked_by, cut.locked_by]
    assert [answer.status for answer in answers] == ["success", "failed", "interrupted"]
    assert 580 < seconds_ahead(conn, "next_run_at", well.function_name) <= 600
    assert 3580 < seconds_ahead(conn, "next_run_at", badly.function_name) <= 3600
    recorded = run(conn, UUID(well.locked_by))
    assert (recorded["status"], recorded["fetched"], recorded["inserted"]) == ("success", 3, 2)
    assert (row(conn, badly.function_name)["failures"], row(conn, badly.function_name)["last_error"]) == (
        1,
        "out of paper",
    )
    assert one(conn, "select count(*) from public.refresh_schedule where locked_by is not null") == 0


def test_one_that_lost_its_lease_is_reported_lost_and_the_others_are_closed(conn: psycopg.Connection) -> None:
    due(conn, 4)
    first, second, third, fourth = claim_many(conn, some(4))
    expire(conn, second.function_name)
    assert claim_due(conn).function_name == second.function_name
    finish(conn, UUID(third.locked_by), 1, "failed", third.function_name, error="told before", delay=LEASE)
    stranger = {**end(fourth), "fence": 2}

    for _ in range(2):
        answers = finish_many(conn, end(first), end(second), end(third), stranger)
        assert [answer.status for answer in answers] == ["success", "lost", "failed", "lost"]

    assert row(conn, second.function_name)["fence"] == 2
    assert row(conn, second.function_name)["locked_by"] is not None
    assert row(conn, fourth.function_name)["locked_by"] == fourth.locked_by
    assert run(conn, UUID(first.locked_by))["status"] == "success"


def test_a_poisoned_row_undoes_the_batch_and_can_be_left_out(conn: psycopg.Connection) -> None:
    due(conn, 3)
    claims = claim_many(conn, some(3))
    change(conn, POISON["run_count"], claims[1].function_name)

    with refused("22003"):
        finish_many(conn, *map(end, claims))

    assert one(conn, "select count(*) from public.refresh_runs where status = 'running'") == 3
    answers = finish_many(conn, end(claims[0]), end(claims[2]))
    assert [answer.status for answer in answers] == ["success", "success"]


def test_a_row_that_somebody_else_has_locked_is_busy_and_the_others_end(dsn: str, conn: psycopg.Connection) -> None:
    due(conn, 3)
    claims = claim_many(conn, some(3))
    with psycopg.connect(dsn) as other:
        other.execute(
            "select from public.refresh_schedule where function_name = %s for update", [claims[1].function_name]
        )
        conn.execute("set statement_timeout = '1s'")
        answers = finish_many(conn, *map(end, claims))
        assert [answer.status for answer in answers] == ["success", "busy", "success"]
    assert [answer.status for answer in finish_many(conn, *map(end, claims))] == ["success"] * 3


def test_two_batches_of_ends_never_wait_in_a_circle(dsn: str, conn: psycopg.Connection) -> None:
    """Each is given the same rows in the other order. Nobody waits: what the other has locked is busy."""
    due(conn, 40)
    for _ in range(5):
        claims = claim_many(conn, some(40))
        with psycopg.connect(dsn, autocommit=True) as other, ThreadPoolExecutor() as threads:
            ends = list(map(end, claims))
            one_way = threads.submit(finish_many, conn, *ends)
            answers = finish_many(other, *reversed(ends))
            assert {answer.status for answer in [*answers, *one_way.result()]} <= {"success", "busy"}
            assert {answer.status for answer in finish_many(other, *ends)} == {"success"}
        conn.execute("update public.refresh_schedule set next_run_at = null")


def renew_many(conn: psycopg.Connection, claims: list[Any], *leases: timedelta | None) -> list[str]:
    answers = call_all(
        conn,
        "renew_refresh_locks",
        function_names=names(claims),
        request_ids=[UUID(claim.locked_by) for claim in claims],
        fences=[claim.fence for claim in claims],
        leases=list(leases) or [LEASE] * len(claims),
    )
    by_request = {str(answer.request_id): answer.answer for answer in answers}
    return [by_request[claim.locked_by] for claim in claims]


def test_leases_are_renewed_together_a_busy_one_is_passed_over_and_a_lost_one_reported(
    dsn: str, conn: psycopg.Connection
) -> None:
    conn.execute("set statement_timeout = '1s'")
    due(conn, 4)
    claims = claim_many(conn, some(4), lease=timedelta(minutes=1))
    expire(conn, "row 1")
    expire(conn, "row 2")
    assert claim_due(conn).function_name == "row 1"
    lock = "select from public.refresh_schedule where function_name = 'row 3' for no key update"
    with holding(dsn, lock):
        assert renew_many(conn, claims) == ["renewed", "lost", "renewed", "busy"], "late but not replaced is renewed"

    for name in ("row 0", "row 2"):
        assert 280 < seconds_ahead(conn, "locked_until", name) <= 300
    assert seconds_ahead(conn, "locked_until", "row 3") <= 60
    assert renew_many(conn, [claims[0]._replace(fence=9)]) == ["lost"]
    finish(conn, UUID(claims[0].locked_by), 1, function_name="row 0")
    assert renew_many(conn, claims[:1]) == ["lost"]
    assert row(conn, "row 0")["locked_until"] is None


def test_a_lease_is_renewed_by_its_own_measure_whoever_else_asks_for_its_row(conn: psycopg.Connection) -> None:
    due(conn, 1)
    (claim,) = claim_many(conn, some(1))
    stranger = claim._replace(locked_by=str(uuid4()))
    for claims in ([stranger, claim], [claim, stranger]):
        leases = [timedelta(hours=9) if each is stranger else LEASE for each in claims]
        assert renew_many(conn, claims, *leases) == ["lost" if each is stranger else "renewed" for each in claims]
        assert seconds_ahead(conn, "locked_until", "row 0") <= LEASE.total_seconds()


@pytest.mark.parametrize("ends", [{}, "x", [1], [None], [[]]])
def test_ends_that_are_no_array_of_objects_are_refused_in_a_sentence(conn: psycopg.Connection, ends: Any) -> None:
    with refused("22023"):
        call_all(conn, "finish_refresh_runs", ends=Jsonb(ends))


@pytest.mark.parametrize("lease", [None, timedelta(0), timedelta(seconds=-1), timedelta(days=2)])
def test_many_leases_are_each_longer_than_zero_and_at_most_a_day(
    conn: psycopg.Connection, lease: timedelta | None
) -> None:
    due(conn, 2)
    claims = claim_many(conn, some(2))
    with refused("22023"):
        renew_many(conn, claims, LEASE, lease)
    one_of_them = claims[0]
    with refused("22023"):
        call_all(
            conn,
            "renew_refresh_lock",
            function_name=one_of_them.function_name,
            request_id=UUID(one_of_them.locked_by),
            fence=one_of_them.fence,
            lease=lease,
        )
