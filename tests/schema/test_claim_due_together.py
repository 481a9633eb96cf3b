"""Many dispatchers claim what is due at the same time: each row goes to one, and nobody waits for another's row."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import timedelta
from threading import Barrier

import psycopg
import pytest

from tests.schema.calls import (
    claim_due,
    due_for,
    holding,
    one,
    runs,
)

DISPATCHERS = 16
DUE = 200


@pytest.fixture
def dispatchers(dsn: str) -> Iterator[list[psycopg.Connection]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(closing(psycopg.connect(dsn, autocommit=True, options="-c statement_timeout=10s")))
            for _ in range(DISPATCHERS)
        ]


def test_each_due_row_is_claimed_by_exactly_one_of_sixteen_dispatchers(
    conn: psycopg.Connection, dispatchers: list[psycopg.Connection]
) -> None:
    for number in range(DUE):
        due_for(conn, f"row {number}", number % 50, f"action {number % 3}")
    barrier = Barrier(DISPATCHERS)
    actions = [f"action {number}" for number in range(3)]

    def drain(dispatcher: psycopg.Connection) -> list[str]:
        names: list[str] = []
        barrier.wait(30)
        while (claim := claim_due(dispatcher, *actions)).reason != "not_due":
            assert claim.acquired or (claim.reason, claim.due_in) == ("locked", timedelta(0))
            names += [claim.function_name] if claim.acquired else []
        return names

    with ThreadPoolExecutor(DISPATCHERS) as threads:
        drained = list(threads.map(drain, dispatchers))

    assert sorted(name for names in drained for name in names) == sorted(f"row {number}" for number in range(DUE))
    assert sum(1 for names in drained if names) > 1, "they took turns"
    assert runs(conn) == DUE
    assert one(conn, "select count(*) from public.refresh_schedule where fence = 1 and abandoned = 0") == DUE


@pytest.mark.parametrize("blocker", ["another's claim", "an open transaction"])
def test_a_row_that_somebody_has_locked_is_passed_without_waiting(
    dsn: str, conn: psycopg.Connection, blocker: str
) -> None:
    conn.execute("set statement_timeout = '1s'")
    due_for(conn, "oldest", 30, "one")
    due_for(conn, "second", 20, "two")
    due_for(conn, "third", 10, "one")
    claim = "select public.claim_due_refresh(p_request_id => gen_random_uuid())"
    lock = "select from public.refresh_schedule where function_name = 'oldest' for no key update"
    with holding(dsn, claim if blocker == "another's claim" else lock):
        # In the order of their age, though the oldest is of the third's action.
        assert claim_due(conn, "one", "two").function_name == "second"
        assert claim_due(conn, "one", "two").function_name == "third"
        nothing = claim_due(conn, "one", "two")
        assert (nothing.acquired, nothing.reason, nothing.due_in) == (False, "locked", timedelta(0))
        assert (nothing.function_name, nothing.fence, nothing.locked_until) == (None, None, None)

    assert claim_due(conn, "one", "two").function_name == "oldest", "it was given back"
