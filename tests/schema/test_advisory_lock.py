"""The advisory lock of a claim lasts until the claim is committed, and what would happen if it did not.

Two connections step by step: each interleaving is made, none is waited for.
"""

from uuid import uuid4

import psycopg

from tests.schema.calls import acquire, call, holding, one, row, schedule

ROW = "where function_name = 'job'"
TRY_LOCK = f"select pg_try_advisory_xact_lock(1, id) from public.refresh_schedule {ROW}"
FREE = f"select locked_until is null from public.refresh_schedule {ROW}"
CLAIM = f"update public.refresh_schedule set locked_by = %s, locked_until = 'infinity' {ROW}"


def test_an_advisory_lock_that_is_over_before_the_claim_is_written_allows_two_winners(
    dsn: str, conn: psycopg.Connection
) -> None:
    """The mistake: outside a transaction the lock ends with the statement that took it."""
    schedule(conn)
    with psycopg.connect(dsn, autocommit=True) as one_caller, psycopg.connect(dsn, autocommit=True) as other:
        callers = (one_caller, other)
        assert [one(caller, TRY_LOCK) for caller in callers] == [True, True], "both have it, one after the other"
        assert [one(caller, FREE) for caller in callers] == [True, True], "both look"
        assert [caller.execute(CLAIM, [name]).rowcount for caller, name in zip(callers, "ab", strict=True)] == [1, 1]

    assert row(conn)["locked_by"] == "b", "both have written, and the first believes that it holds the lease"


def test_an_advisory_lock_that_lasts_until_the_claim_is_committed_allows_one(
    dsn: str, conn: psycopg.Connection
) -> None:
    """The same steps in one transaction: whoever comes between is turned away, whoever comes after sees the claim."""
    schedule(conn)
    with psycopg.connect(dsn) as winner, psycopg.connect(dsn) as loser:
        assert one(winner, TRY_LOCK)
        assert one(winner, FREE)
        assert not one(loser, TRY_LOCK), "before the claim is written"
        winner.execute(CLAIM, ["winner"])
        assert not one(loser, TRY_LOCK), "before it is committed"
        assert one(loser, FREE), "though by looking alone the row would be free"
        winner.commit()
        assert one(loser, TRY_LOCK)
        assert not one(loser, FREE)

    assert row(conn)["locked_by"] == "winner"


def test_a_claim_holds_its_advisory_lock_until_it_is_committed(dsn: str, conn: psycopg.Connection) -> None:
    """Ours, asked in the same moments, directly and by way of what is due."""
    schedule(conn)
    request = uuid4()
    with psycopg.connect(dsn) as winner, psycopg.connect(dsn) as loser:
        assert call(winner, "claim_due_refresh", request_id=request).acquired
        assert not one(loser, TRY_LOCK), "whoever takes the lock by hand is excluded too"
        assert acquire(loser, uuid4()).reason == "locked"
        assert call(loser, "claim_due_refresh", request_id=uuid4()).reason == "locked"
        winner.commit()
        loser.rollback()
        assert one(loser, TRY_LOCK)
        assert acquire(loser, uuid4()).reason == "locked", "by the claim itself"
        loser.rollback()
        assert call(loser, "claim_due_refresh", request_id=uuid4()).reason == "not_due"

    assert (row(conn)["locked_by"], row(conn)["fence"]) == (str(request), 1)


def test_a_claim_is_turned_away_by_an_advisory_lock(dsn: str, conn: psycopg.Connection) -> None:
    schedule(conn)
    with holding(dsn, TRY_LOCK) as holder:
        assert acquire(conn, uuid4()).reason == "locked"
        holder.rollback()
    assert acquire(conn, uuid4()).acquired
