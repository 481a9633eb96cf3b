"""P1, P15 and P16 in their full numbers: one slot is one run, a claim never waits, a lease is never granted short.

The harnesses and their negative controls are those of tests/schema/test_race.py.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import cycle, islice, product

import psycopg
import pytest

from tests.faults.profile import Profile
from tests.schema.calls import change, expire, finish, holding, make_due, row, schedule
from tests.schema.test_race import AT_ONCE, BLOCKERS, all_at_once, claim_after, claim_by_sql

CALLERS = 50
LEVELS = ("read committed", "repeatable read", "serializable")


@pytest.fixture
def callers(dsn: str) -> Iterator[list[psycopg.Connection]]:
    def connect(_: int) -> psycopg.Connection:
        return psycopg.connect(dsn, autocommit=True, options=f"-c statement_timeout={AT_ONCE}")

    with ThreadPoolExecutor(4) as threads, ExitStack() as stack:
        yield [stack.enter_context(closing(caller)) for caller in threads.map(connect, range(CALLERS))]


@pytest.mark.timeout(1800)
def test_a_hundred_claims_of_one_slot_are_one_run(
    conn: psycopg.Connection, callers: list[psycopg.Connection], profile: Profile
) -> None:
    """Two volleys of fifty: the second meets a row that is held."""
    schedule(conn)
    rounds, kept = profile.n("P1"), 0
    volleys = all_at_once(callers, claim_by_sql)
    for fence in range(1, rounds + 1):
        answers = {**next(volleys), **next(volleys)}
        won = [request for request, reason in answers.items() if reason is None]
        kept += len(won) == 1 and len(answers) == 2 * CALLERS
        finish(conn, won[0], fence)
        make_due(conn)
    volleys.close()
    assert (row(conn)["run_count"], row(conn)["abandoned"]) == (rounds, 0)
    profile.record("P1", kept, rounds)


@pytest.mark.timeout(1800)
def test_of_two_hundred_callers_of_a_busy_row_none_waits(
    dsn: str, conn: psycopg.Connection, callers: list[psycopg.Connection], profile: Profile
) -> None:
    """Also where the lease is over: what has the row locked may still commit."""
    schedule(conn, changes="locked_by = 'somebody', locked_until = clock_timestamp()")
    expire(conn)
    rounds, told = profile.n("P15"), 0
    with holding(dsn, BLOCKERS[0]):
        volleys = all_at_once(callers, claim_by_sql)
        for _ in range(4 * rounds):
            told += list(next(volleys).values()).count("locked")
        volleys.close()
    profile.record("P15", told, 4 * CALLERS * rounds)


def test_a_lease_in_an_old_transaction_is_whole(dsn: str, conn: psycopg.Connection) -> None:
    schedule(conn)
    assert claim_after(dsn, BLOCKERS[0], "rollback", True, LEVELS[0])


@pytest.mark.timeout(1800)
def test_no_cell_of_the_matrix_of_blockers_grants_a_short_lease(
    dsn: str, conn: psycopg.Connection, profile: Profile
) -> None:
    """Whole means all of it, from a moment between question and answer."""
    schedule(conn)
    matrix = list(product(BLOCKERS, ("commit", "rollback"), (False, True), LEVELS))
    profile.random("P16").shuffle(matrix)
    cells = list(islice(cycle(matrix), profile.n("P16")))
    whole = 0
    for cell in cells:
        change(conn, "locked_by = null, locked_until = null, abandoned = 0, next_run_at = null")
        whole += claim_after(dsn, *cell)
    profile.record("P16", whole, len(cells))
