import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from cronlease.db.connection import Pool


class Connection:
    numbers = count()

    def __init__(self) -> None:
        self.number = next(self.numbers)
        self.broken = False
        self.closed = False


async def opened() -> Connection:
    return Connection()


async def close(connection: Connection) -> None:
    connection.closed = True


def pool_of(size: int, open_: Callable[[], Awaitable[Connection]] = opened) -> Pool[Connection]:
    return Pool(open_, close, lambda connection: not connection.broken, size)


def test_the_last_one_given_back_is_the_first_one_taken() -> None:
    async def scenario() -> None:
        pool = pool_of(3)
        first, second = await pool.take(), await pool.take()
        await pool.give(first)
        await pool.give(second)
        assert await pool.take() is second
        assert await pool.take() is first
        assert await pool.take() not in (first, second)

    asyncio.run(scenario())


def test_no_more_are_handed_out_than_there_is_room_for() -> None:
    async def scenario() -> None:
        pool = pool_of(1)
        only = await pool.take()
        waiting = asyncio.ensure_future(pool.take())
        await asyncio.sleep(0)
        assert not waiting.done()
        await pool.give(only)
        assert await waiting is only

    asyncio.run(scenario())


def test_a_broken_one_is_closed_and_not_handed_out_again() -> None:
    async def scenario() -> None:
        pool = pool_of(1)
        broken = await pool.take()
        broken.broken = True
        await pool.give(broken)
        assert broken.closed
        assert await pool.take() is not broken

    asyncio.run(scenario())


def test_a_fresh_one_is_never_an_idle_one_and_drained_ones_are_closed() -> None:
    async def scenario() -> None:
        pool = pool_of(2)
        idle = await pool.take()
        await pool.give(idle)
        assert await pool.take(fresh=True) is not idle
        await pool.drain()
        assert idle.closed
        assert await pool.take() is not idle

    asyncio.run(scenario())


def test_one_that_cannot_be_opened_leaves_its_place_free() -> None:
    async def refuse() -> Connection:
        raise OSError("no")

    async def scenario() -> None:
        pool = pool_of(1, refuse)
        for _ in range(3):
            with pytest.raises(OSError, match="no"):
                await pool.take()

    asyncio.run(scenario())


def test_what_is_given_back_after_the_end_is_closed() -> None:
    async def scenario() -> None:
        pool = pool_of(2)
        idle, lent = await pool.take(), await pool.take()
        await pool.give(idle)
        await pool.close()
        await pool.give(lent)
        assert (idle.closed, lent.closed) == (True, True)

    asyncio.run(scenario())
