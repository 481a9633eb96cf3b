"""Claims at the same moment: one wins, the others learn it immediately, and no lease is granted short.

Promises P1, P15 and P16. Each harness is also turned on a naive claim, to see that it would notice.
"""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import timedelta
from itertools import product
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import errors

from tests.schema.calls import (
    JOB,
    acquire,
    assert_lease,
    call,
    change,
    expire,
    finish,
    holding,
    make_due,
    one,
    row,
    schedule,
)

CALLERS = 24
ROUNDS = 120
AT_ONCE = "1s"
"""What a claim may take on a slow machine; one that waits for a lock takes the function's two seconds."""

LEASE = timedelta(seconds=6)
ROW = "where function_name = 'job'"
Claim = Callable[[psycopg.Connection, UUID], str | None]
"""Answers None when it won, else the reason."""
Rounds = Generator[dict[UUID, str | None], None, None]


@pytest.fixture
def callers(dsn: str, conn: psycopg.Connection) -> Iterator[list[psycopg.Connection]]:
    """Fifty connections that have each asked before: from here on a claim costs its decision only."""
    schedule(conn, "warm", "paused_at = clock_timestamp()")

    def connect(_: int) -> psycopg.Connection:
        return psycopg.connect(dsn, autocommit=True)

    def warm_up(caller: psycopg.Connection) -> None:
        caller.execute(f"set statement_timeout = '{AT_ONCE}'")
        assert acquire(caller, uuid4(), "warm").reason == "paused"

    with ThreadPoolExecutor(4) as threads, ExitStack() as stack:
        connections = [stack.enter_context(closing(caller)) for caller in threads.map(connect, range(50))]
        list(threads.map(warm_up, connections))
        yield connections


def claim_by_sql(conn: psycopg.Connection, request: UUID) -> str | None:
    answer = acquire(conn, request)
    assert answer.acquired == (answer.reason is None)
    return None if answer.acquired else str(answer.reason)


def claim_by_looking_first(conn: psycopg.Connection, request: UUID) -> str | None:
    if not one(conn, f"select locked_until is null from public.refresh_schedule {ROW}"):
        return "locked"
    conn.execute(
        f"update public.refresh_schedule set locked_by = %s, locked_until = 'infinity' {ROW}", [str(request)]
    )
    return None


def all_at_once(connections: list[psycopg.Connection], claim: Claim) -> Rounds:
    """Round after round, every connection claims behind one barrier; answers what each request was told."""
    barrier = Barrier(len(connections))

    def claim_together(conn: psycopg.Connection) -> tuple[UUID, str | None]:
        request = uuid4()
        barrier.wait(30)
        return request, claim(conn, request)

    with ThreadPoolExecutor(len(connections)) as threads:
        while True:
            yield dict(threads.map(claim_together, connections))


def test_one_due_slot_is_one_real_run_however_many_claim_it_at_the_same_time(
    conn: psycopg.Connection, callers: list[psycopg.Connection]
) -> None:
    schedule(conn)
    rounds = all_at_once(callers[:CALLERS], claim_by_sql)
    reasons = set()
    for fence in range(1, ROUNDS + 1):
        answers = next(rounds)
        won = [request for request, reason in answers.items() if reason is None]
        assert len(won) == 1, f"round {fence}: {answers}"
        reasons |= set(answers.values())
        finish(conn, won[0], fence)
        make_due(conn)
    rounds.close()

    assert reasons == {None, "locked"}
    assert (row(conn)["run_count"], row(conn)["fence"], row(conn)["abandoned"]) == (ROUNDS, ROUNDS, 0)
    ended = conn.execute("select status, count(*), count(distinct fence) from public.refresh_runs group by 1")
    assert ended.fetchall() == [("success", ROUNDS, ROUNDS)]


def test_one_due_slot_is_one_real_run_though_the_winner_finishes_while_the_others_still_ask(
    conn: psycopg.Connection, callers: list[psycopg.Connection]
) -> None:
    def claim_and_finish(conn: psycopg.Connection, request: UUID) -> str | None:
        answer = acquire(conn, request)
        if answer.acquired:
            finish(conn, request, answer.fence, delay=timedelta(hours=1))
        return None if answer.acquired else str(answer.reason)

    schedule(conn)
    rounds = all_at_once(callers[:CALLERS], claim_and_finish)
    reasons = set()
    for number in range(ROUNDS):
        answers = list(next(rounds).values())
        assert answers.count(None) == 1, f"round {number}: {answers}"
        reasons |= set(answers)
        make_due(conn)
    rounds.close()

    assert reasons <= {None, "locked", "not_due"}
    assert (row(conn)["run_count"], row(conn)["fence"]) == (ROUNDS, ROUNDS)


def test_the_race_is_lost_by_a_claim_that_looks_before_it_writes(
    conn: psycopg.Connection, callers: list[psycopg.Connection]
) -> None:
    """The control of P1."""
    schedule(conn)
    rounds = all_at_once(callers[:CALLERS], claim_by_looking_first)
    for _ in range(ROUNDS):
        answers = list(next(rounds).values())
        if answers.count(None) > 1:
            break
        change(conn, "locked_by = null, locked_until = null")
    else:
        pytest.fail(f"{ROUNDS} rounds and never two winners: this harness would notice nothing")
    rounds.close()


def test_the_loser_never_waits_for_the_winners_transaction(
    dsn: str, conn: psycopg.Connection, callers: list[psycopg.Connection]
) -> None:
    schedule(conn)
    winner = uuid4()
    with psycopg.connect(dsn) as holder:
        assert acquire(holder, winner).acquired
        answers = next(all_at_once(callers, claim_by_sql))
        assert list(answers.values()) == ["locked"] * len(callers)
        holder.commit()

    assert row(conn)["locked_by"] == str(winner)


@pytest.mark.parametrize("blocker", ["an idle transaction", "the holder's data transaction"])
def test_a_claim_never_waits_for_a_row_that_is_locked(
    dsn: str, conn: psycopg.Connection, callers: list[psycopg.Connection], blocker: str
) -> None:
    """P15. Also when the lease ran out meanwhile: the holder's open transaction may still commit."""
    schedule(conn)
    request = uuid4()
    fence = acquire(conn, request).fence
    expire(conn)
    with psycopg.connect(dsn) as other:
        if blocker == "an idle transaction":
            other.execute(f"select from public.refresh_schedule {ROW} for update")
        else:
            assert_lease(other, request, fence)
        answers = next(all_at_once(callers, claim_by_sql))
        assert list(answers.values()) == ["locked"] * len(callers)
        other.commit()

    assert acquire(conn, uuid4()).acquired


def test_creating_the_row_never_waits_for_another_that_creates_it(dsn: str, conn: psycopg.Connection) -> None:
    conn.execute(f"set statement_timeout = '{AT_ONCE}'")
    create = "select public.ensure_schedule(p_function_name => 'job')"
    with holding(dsn, create) as first:
        assert call(conn, "ensure_schedule", function_name=JOB)[0] == "locked"
        first.commit()

    assert call(conn, "ensure_schedule", function_name=JOB)[0] == "exists"
    assert (row(conn)["action"], row(conn)["next_run_at"]) == (JOB, None)


BLOCKERS = (
    f"select from public.refresh_schedule {ROW} for update",
    f"update public.refresh_schedule set args = args {ROW}",
)


def open_old_transaction(conn: psycopg.Connection, isolation: str) -> None:
    """A transaction that has read the row, under the snapshot of that moment; it grows old as others wait."""
    conn.execute(f"begin isolation level {isolation}")
    one(conn, f"select fence from public.refresh_schedule {ROW}")


def grow_old(conn: psycopg.Connection) -> None:
    """Lets the transaction's now() fall behind the clock."""
    conn.execute("select pg_sleep(0.02)")


def claim_and_measure(conn: psycopg.Connection) -> tuple[str | None, bool]:
    """The reason, and whether the lease is whole: counted from a moment between the question and the answer."""
    asked = one(conn, "select clock_timestamp()")
    text = """
        select reason, locked_until, clock_timestamp()
        from public.acquire_refresh_lock(p_function_name => 'job', p_request_id => %s, p_lease => %s)
    """
    try:
        found: Any = conn.execute(text, [uuid4(), LEASE]).fetchone()
    except errors.SerializationFailure:
        # The row changed since this transaction's snapshot: whoever changed it was first.
        conn.execute("rollback")
        return "locked", False
    reason, until, answered = found
    return reason, until is not None and asked <= until - LEASE <= answered


def claim_after(dsn: str, blocker: str, end: str, old: bool, isolation: str) -> bool:
    """Whether the lease is whole that is granted to one who asked while blocked and again after."""
    with psycopg.connect(dsn, autocommit=True) as caller, holding(dsn, blocker) as other:
        caller.execute(f"set default_transaction_isolation = '{isolation}'")
        caller.execute(f"set statement_timeout = '{AT_ONCE}'")
        if old:
            open_old_transaction(caller, isolation)
        assert claim_and_measure(caller)[0] == "locked"
        if old:
            grow_old(caller)
        other.execute(end)

        reason, whole = claim_and_measure(caller)
        if reason == "locked":
            # Told by 40001, and only where the snapshot is older than the change. A new transaction sees the row.
            assert (old, end, blocker) == (True, "commit", BLOCKERS[1])
            assert isolation != "read committed"
            open_old_transaction(caller, isolation)
            grow_old(caller)
            reason, whole = claim_and_measure(caller)
        assert reason is None
        caller.execute("commit" if old else "")
    return whole


def test_a_lease_is_never_granted_short(dsn: str, conn: psycopg.Connection) -> None:
    """P16: whoever blocked the row, however that ended, and in whatever transaction the claim is made."""
    schedule(conn)
    levels = ("read committed", "repeatable read", "serializable")
    short = []
    for cell in product(BLOCKERS, ("commit", "rollback"), (False, True), levels):
        change(conn, "locked_by = null, locked_until = null, abandoned = 0, next_run_at = null")
        if not claim_after(dsn, *cell):
            short.append(cell)
    assert short == []


def test_a_lease_counted_from_the_transactions_start_is_short(dsn: str, conn: psycopg.Connection) -> None:
    """The control of P16: the same measure on a naive claim."""
    schedule(conn)
    with psycopg.connect(dsn, autocommit=True) as caller:
        open_old_transaction(caller, "read committed")
        grow_old(caller)
        asked = one(caller, "select clock_timestamp()")
        naive = "update public.refresh_schedule set locked_by = 'me', locked_until = now() + %s"
        until = one(caller, f"{naive} returning locked_until", [LEASE])

    assert until - LEASE < asked
