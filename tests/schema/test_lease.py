"""The lease between claim and finish: renewed, asserted, released, recovered; and the fence, which only rises."""

from datetime import timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.schema.calls import (
    JOB,
    LEASE,
    acquire,
    assert_lease,
    call,
    change,
    expire,
    finish,
    holding,
    make_due,
    one,
    physical_row,
    recover,
    refused,
    release,
    renew,
    row,
    run,
    schedule,
    seconds_ahead,
)

LOCK_THE_ROW = "select from public.refresh_schedule where function_name = 'job' for no key update"
AT_ONCE = "1s"
SLACK = 20


@pytest.fixture
def held(conn: psycopg.Connection) -> tuple[UUID, int]:
    """The request and the fence that hold the lease of the job. From here on nothing may wait for a lock."""
    conn.execute(f"set statement_timeout = '{AT_ONCE}'")
    schedule(conn)
    request = uuid4()
    return request, acquire(conn, request).fence


def without_lease(whole: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in whole.items() if name not in ("locked_by", "locked_until")}


def test_a_lease_that_is_ours_is_renewed(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    before = row(conn)

    assert renew(conn, *held, timedelta(hours=1)) == "renewed"

    assert 3600 - SLACK < seconds_ahead(conn, "locked_until") <= 3600
    after = row(conn)
    assert without_lease(after) == without_lease(before)
    assert after["locked_by"] == before["locked_by"]


def test_a_renewed_lease_counts_from_the_moment_of_renewal(dsn: str, conn: psycopg.Connection) -> None:
    """Also inside an old transaction: never from its start."""
    schedule(conn)
    request, lease = uuid4(), timedelta(seconds=10)
    fence = acquire(conn, request).fence
    with psycopg.connect(dsn) as caller:
        caller.execute("select pg_sleep(0.2)")
        assert renew(caller, request, fence, lease) == "renewed"
        assert seconds_ahead(caller, "locked_until") > 9.9


def test_a_lease_that_ran_out_but_was_not_replaced_is_renewed(
    conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    expire(conn)

    assert renew(conn, *held) == "renewed"
    assert acquire(conn, uuid4()).reason == "locked"


def test_renewing_a_row_that_is_locked_answers_busy_immediately(
    dsn: str, conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    """Its own data transaction has the row, for instance: that is no lost lease."""
    before = row(conn)
    with psycopg.connect(dsn) as data:
        assert_lease(data, *held)
        assert renew(conn, *held) == "busy"
        data.rollback()

    assert row(conn) == before
    assert renew(conn, *held) == "renewed"


def test_a_lease_that_is_not_ours_is_lost(dsn: str, conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    request, fence = held
    before = physical_row(conn)

    assert renew(conn, uuid4(), fence) == "lost"
    assert renew(conn, request, fence + 1) == "lost"
    assert renew(conn, request, fence - 1) == "lost"

    assert physical_row(conn) == before
    with holding(dsn, LOCK_THE_ROW):
        assert renew(conn, uuid4(), fence) == "lost", "a busy row does not hide it"


def test_a_lease_is_lost_once_replaced_finished_released_or_deleted(
    conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    expire(conn)
    second = uuid4()
    fence = acquire(conn, second).fence
    assert renew(conn, *held) == "lost"

    finish(conn, second, fence)
    assert renew(conn, second, fence) == "lost"

    third = uuid4()
    fence = acquire(conn, third).fence
    release(conn, third)
    assert renew(conn, third, fence) == "lost"

    conn.execute("delete from public.refresh_schedule")
    assert renew(conn, third, fence) == "lost"


def test_assert_lease_keeps_the_row_until_the_transaction_ends(
    dsn: str, conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    expire(conn)
    with psycopg.connect(dsn) as data:
        assert_lease(data, *held)
        assert acquire(conn, uuid4()).reason == "locked"
        data.rollback()

    assert acquire(conn, uuid4()).acquired


def test_assert_lease_raises_when_the_lease_is_not_ours(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    request, fence = held
    assert_lease(conn, request, fence)

    for wrong in ((uuid4(), fence), (request, fence + 1), (request, fence - 1)):
        with refused("CL001"):
            assert_lease(conn, *wrong)
    with refused("CL001"):
        call(conn, "assert_lease", function_name="nobody", request_id=request, fence=fence)
    expire(conn)
    assert_lease(conn, request, fence)
    acquire(conn, uuid4())
    with refused("CL001"):
        assert_lease(conn, request, fence)


def test_release_frees_the_lease_and_closes_the_run_as_failed(
    conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    change(conn, "failures = 2, abandoned = 1, last_error = 'x', next_run_at = '2026-01-01', args = '{\"a\": 1}'")
    before, recorded = row(conn), run(conn, held[0])

    assert release(conn, held[0])

    after, closed = row(conn), run(conn, held[0])
    assert (after["locked_by"], after["locked_until"]) == (None, None)
    assert without_lease(after) == {**without_lease(before), "abandoned": 2}
    told = {
        "status": "failed",
        "error": "the run was released: its end could not be written, or its claim was not used",
    }
    assert closed == {**recorded, **told, "finished_at": closed["finished_at"]}
    assert closed["finished_at"] is not None


@pytest.mark.parametrize("table", ["refresh_runs", "refresh_schedule"])
def test_release_frees_the_lease_where_nothing_else_can_be_written(
    conn: psycopg.Connection, held: tuple[UUID, int], table: str
) -> None:
    """And the run that is left open is seen by recover, or by the next claim, and counted once."""
    forbidden = "new.status <> 'running'" if table == "refresh_runs" else "new.abandoned > old.abandoned"
    conn.execute(
        f"""
        create function refuse() returns trigger language plpgsql as $$ begin raise exception 'disk full'; end $$;
        create trigger refuse before update on {table} for each row when ({forbidden}) execute function refuse()
        """
    )
    assert release(conn, held[0])
    assert (row(conn)["locked_by"], row(conn)["abandoned"]) == (None, 0)
    assert run(conn, held[0])["status"] == "running"

    conn.execute(f"drop trigger refuse on {table}")
    assert recover(conn, timedelta(hours=1)) == 0, "it is too young"
    assert recover(conn) == 1
    assert recover(conn) == 0
    closed = run(conn, held[0])
    assert (closed["status"], closed["error"]) == ("abandoned", "the run never finished: it was left without a lease")
    assert (row(conn)["abandoned"], row(conn)["last_error"]) == (1, closed["error"])


def test_a_run_whose_end_cannot_be_written_is_not_started_at_every_hit(conn: psycopg.Connection) -> None:
    schedule(conn)
    for _ in range(3):
        request = uuid4()
        assert acquire(conn, request).acquired
        assert release(conn, request)
    assert acquire(conn, uuid4()).acquired
    assert seconds_ahead(conn, "next_run_at") > 1000, "from the fourth on it begins with a backoff"


def test_only_the_holder_releases(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    before = physical_row(conn)
    assert not release(conn, uuid4())
    assert physical_row(conn) == before

    expire(conn)
    acquire(conn, uuid4())
    before = physical_row(conn)
    assert not release(conn, held[0]), "it was replaced"
    assert physical_row(conn) == before


def test_recover_clears_a_lease_that_ran_out_and_closes_its_run(
    conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    schedule(conn, "other")
    bystander = uuid4()
    acquire(conn, bystander, "other")
    before, untouched = row(conn), row(conn, "other")
    expire(conn)

    assert recover(conn) == 1

    after = row(conn)
    assert (after["locked_by"], after["locked_until"], after["abandoned"]) == (None, None, 1)
    closed = run(conn, held[0])
    told = {"abandoned": 1, "last_status": "abandoned", "last_error": closed["error"]}
    told["incident_at"] = after["incident_at"]
    assert after["incident_at"] is not None
    assert without_lease(after) == {**without_lease(before), **told}
    assert closed["status"] == "abandoned"
    assert closed["finished_at"] is not None
    assert "never finished" in closed["error"]
    assert row(conn, "other") == untouched
    assert run(conn, bystander)["status"] == "running"
    assert recover(conn) == 0, "there is nothing left to clear"


def test_recover_never_breaks_a_live_lease(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    conn.execute("update public.refresh_runs set started_at = started_at - interval '1 day'")
    before = physical_row(conn)

    assert recover(conn) == 0

    assert physical_row(conn) == before


def test_recover_leaves_a_run_that_started_a_short_while_ago(
    conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    expire(conn)
    text = "update public.refresh_runs set started_at = clock_timestamp() - interval '299 seconds'"
    conn.execute(text)
    assert recover(conn, timedelta(minutes=6)) == 0
    assert recover(conn, LEASE) == 0

    conn.execute(text.replace("299", "301"))
    assert int(call(conn, "recover_stale_dispatches")[0]) == 1, "five minutes unless said otherwise"


def test_recover_leaves_a_busy_row_to_whoever_is_busy_with_it(
    dsn: str, conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    schedule(conn, "other")
    acquire(conn, uuid4(), "other")
    expire(conn)
    expire(conn, "other")
    with psycopg.connect(dsn) as data:
        assert_lease(data, *held)
        assert recover(conn) == 1, "the other one"
        finish(data, *held)
        data.commit()

    assert run(conn, held[0])["status"] == "success"
    assert (row(conn)["abandoned"], row(conn, "other")["abandoned"]) == (0, 1)


def test_recover_clears_every_stale_row_in_one_call(conn: psycopg.Connection) -> None:
    for number in range(20):
        schedule(conn, f"job {number}")
        acquire(conn, uuid4(), f"job {number}")
        expire(conn, f"job {number}")

    assert recover(conn) == 20
    assert one(conn, "select count(*) from public.refresh_runs where status = 'running'") == 0


def test_a_lease_without_a_run_is_recovered_too(conn: psycopg.Connection) -> None:
    schedule(conn, changes="locked_by = 'an older revision', locked_until = '2026-01-01'")

    assert recover(conn, LEASE) == 1
    assert row(conn)["locked_by"] is None


def test_the_fence_only_rises(conn: psycopg.Connection) -> None:
    """Whatever ended the run before: release, recovery, each kind of finish, takeover."""
    schedule(conn)
    fences = []

    def claim() -> tuple[UUID, int]:
        request = uuid4()
        make_due(conn)
        fences.append(acquire(conn, request).fence)
        return request, fences[-1]

    release(conn, claim()[0])
    claim()
    expire(conn)
    recover(conn)
    for status in ("success", "partial", "failed", "interrupted"):
        finish(conn, *claim(), status)
    claim()
    expire(conn)
    claim()

    assert fences == [1, 2, 3, 4, 5, 6, 7, 8]
    assert one(conn, "select array_agg(fence order by started_at) from public.refresh_runs") == fences


def test_an_old_holder_does_not_match_a_row_that_was_deleted_and_made_again(
    conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    conn.execute("delete from public.refresh_schedule")
    assert call(conn, "ensure_schedule", function_name=JOB)[0] == "created"

    def the_old_holder_is_refused() -> None:
        before = row(conn), physical_row(conn)
        for verb in (assert_lease, finish):
            with refused("CL001"):
                verb(conn, *held)
        assert renew(conn, *held) == "lost"
        assert not release(conn, held[0])
        assert (row(conn), physical_row(conn)) == before

    the_old_holder_is_refused()
    successor = uuid4()
    claim = acquire(conn, successor)
    assert claim.acquired
    the_old_holder_is_refused()
    assert run(conn, held[0])["status"] == "abandoned"
    assert finish(conn, successor, claim.fence).status == "success"


def test_the_fence_of_a_row_made_again_goes_on_from_its_last_run(
    conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    """Somebody outside who compares fences does not take the new holder for an old one."""
    conn.execute("delete from public.refresh_schedule")
    call(conn, "ensure_schedule", function_name=JOB)

    assert acquire(conn, uuid4()).fence == held[1] + 1
