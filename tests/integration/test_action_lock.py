"""try_acquire_action_lock: the lock of a claim, for a caller's own transaction. It never waits and fails closed."""

import asyncio
from typing import Any

import psycopg

from cronlease import try_acquire_action_lock
from tests.integration.conftest import Room


def schedule_id(room: Room) -> int:
    room.query("select ensure_schedule('tick')")
    return int(room.row("id")[0])


def claim(room: Room) -> Any:
    return room.query("select acquired, reason from acquire_refresh_lock('tick', gen_random_uuid())")[0]


def test_while_a_transaction_has_the_lock_nobody_claims_and_then_one_can(room: Room) -> None:
    number = schedule_id(room)
    with psycopg.connect(room.dsn) as holder, psycopg.connect(room.dsn) as other:
        assert try_acquire_action_lock(holder, number) is True
        assert try_acquire_action_lock(holder, number) is True, "it is this transaction's already"
        assert try_acquire_action_lock(other, number) is False
        assert try_acquire_action_lock(other, number + 1) is True, "another schedule's"
        assert claim(room) == (False, "locked")
        due = room.query("select acquired, reason from claim_due_refresh(gen_random_uuid())")[0]
        assert due == (False, "locked")
        holder.rollback()
        assert claim(room) == (True, None)


def test_it_is_the_same_on_an_async_connection(room: Room) -> None:
    number = schedule_id(room)

    async def ask() -> list[bool]:
        async with (
            await psycopg.AsyncConnection.connect(room.dsn) as holder,
            await psycopg.AsyncConnection.connect(room.dsn, autocommit=True) as other,
        ):
            first = await try_acquire_action_lock(holder, number)
            outside = await try_acquire_action_lock(other, number + 1)
            async with other.transaction():
                second = await try_acquire_action_lock(other, number)
                free = await try_acquire_action_lock(other, number + 1)
            return [first, outside, second, free]

    assert asyncio.run(ask()) == [True, False, False, True]


def test_a_lock_that_would_be_gone_immediately_is_not_acquired(room: Room) -> None:
    """In autocommit mode the lock ends with its own statement: whoever believed it would run beside another."""
    number = schedule_id(room)
    with psycopg.connect(room.dsn, autocommit=True) as conn:
        assert try_acquire_action_lock(conn, number) is False
        with conn.transaction():
            assert try_acquire_action_lock(conn, number) is True


def test_any_error_counts_as_not_acquired(room: Room) -> None:
    number = schedule_id(room)
    with psycopg.connect(room.dsn) as conn:
        assert try_acquire_action_lock(conn, 2**31) is False, "no integer of the database's"
        assert try_acquire_action_lock(conn, number) is False, "the transaction has failed"
    conn.close()
    assert try_acquire_action_lock(conn, number) is False, "the connection is closed"


def test_without_a_database_there_is_one_instance_and_it_may() -> None:
    assert try_acquire_action_lock(None, 1) is True
