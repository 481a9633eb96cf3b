"""The database as one process sees it: its pool of connections, who may have how many of them, and how long to wait
for an answer.

Not psycopg_pool, for two reasons: its background workers stand still while a serverless CPU is frozen between
requests, and it answers "timeout" where a person needs to read "wrong password".
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus

from cronlease.db.ask import PooledConnection, ask, send
from cronlease.db.conninfo import connect_sync
from cronlease.db.queries import Query
from cronlease.db.sqlstate import sentence
from cronlease.errors import ConnectionLost, NoneFree, Unreachable

T = TypeVar("T")
C = TypeVar("C")

POOL_SIZE = 8
# Jobs never get the last two connections, requests never the last one: the end of a run always finds one.
_KEPT_FROM_JOBS = 2
_KEPT_FOR_ENDS = 1
_PREPARE_AFTER = 2
_GRACE_SECONDS = 0.1


async def within(timeout: timedelta, work: Coroutine[Any, Any, T]) -> T:
    """The result, or TimeoutError on time: cancelling a query on a dead network can itself take long, so
    nobody waits for that."""
    task = asyncio.ensure_future(work)
    done: set[asyncio.Task[T]] = set()
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout.total_seconds())
        if not done:
            # A process that was paused sees the answer and the end of its time in the same moment: the answer counts.
            done, _ = await asyncio.wait({task}, timeout=_GRACE_SECONDS)
    finally:
        if not done:
            task.cancel()
            task.add_done_callback(lambda late: late.cancelled() or late.exception())
    if not done:
        raise TimeoutError
    return task.result()


class Pool(Generic[C]):
    """Hands out at most `size` connections; the last one given back is the first one taken."""

    def __init__(
        self,
        open_: Callable[[], Awaitable[C]],
        close: Callable[[C], Awaitable[None]],
        is_reusable: Callable[[C], bool],
        size: int,
    ) -> None:
        self._open = open_
        self._close = close
        self._is_reusable = is_reusable
        self._idle: list[C] = []
        self._closed = False
        self._slots = asyncio.Semaphore(size)

    async def take(self, *, fresh: bool = False) -> C:
        """An idle connection or a new one; with fresh always a new one."""
        await self._slots.acquire()
        if self._idle and not fresh:
            return self._idle.pop()
        try:
            return await self._open()
        except BaseException:
            self._slots.release()
            raise

    async def give(self, connection: C) -> None:
        self._slots.release()
        if self._is_reusable(connection) and not self._closed:
            self._idle.append(connection)
        else:
            await self._close(connection)

    async def close(self) -> None:
        """Closes what is idle, and from then on whatever is given back."""
        self._closed = True
        await self.drain()

    async def drain(self) -> None:
        """Closes what is idle: after a server restart every one of them would fail once."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await self._close(connection)


class Database:
    """One database as one process sees it: a pool of autocommit connections. Belongs to one event loop."""

    def __init__(self, url: str, *, pooler: str = "auto", size: int = POOL_SIZE) -> None:
        self.url = url
        self._prepare_after = None if pooler == "transaction" else _PREPARE_AFTER
        self._pooler_unknown = pooler == "auto"
        self._lendable = max(1, size - _KEPT_FROM_JOBS)
        self._for_jobs = asyncio.Semaphore(self._lendable)
        self._for_all_but_ends = asyncio.Semaphore(max(1, size - _KEPT_FOR_ENDS))
        self._pool: Pool[PooledConnection] = Pool(self._open, PooledConnection.close, _is_reusable, size)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[PooledConnection]:
        """A connection in autocommit mode until the block ends; one left in a transaction is thrown away."""
        async with self._for_all_but_ends, self._taken(fresh=False) as conn:
            yield conn

    @asynccontextmanager
    async def lent(self, seconds: float | None = None) -> AsyncIterator[PooledConnection]:
        """The same for a job. Raises NoneFree after waiting that many seconds for one."""
        async with self._lending(seconds), self.connection() as conn:
            yield conn

    @asynccontextmanager
    async def fenced(
        self, begin: str, first: Query[T], seconds: float | None = None
    ) -> AsyncIterator[tuple[PooledConnection, T]]:
        """A connection for a job, in a transaction whose first query was `first`, and the answer to it. What is not
        committed when the block ends is rolled back. Raises NoneFree as `lent` does."""
        async with self._lending(seconds), self._for_all_but_ends:
            try:
                conn, answer = await self._begin(begin, first, fresh=False)
            except ConnectionLost:
                await self._pool.drain()
                conn, answer = await self._begin(begin, first, fresh=True)
            try:
                yield conn, answer
            finally:
                await self._end(conn)

    async def ask(self, query: Query[T]) -> T:
        """One round trip, repeated on a new connection when that was lost: our functions may be asked twice."""
        async with self._for_all_but_ends:
            return await self.ask_at_the_end(query)

    async def ask_at_the_end(self, query: Query[T]) -> T:
        """The same for the end of a run, which waits for neither jobs nor requests."""
        conn = await self._pool.take()
        try:
            return await ask(conn, query)
        except ConnectionLost:
            pass
        finally:
            await self._pool.give(conn)
        return await self.ask_fresh(query)

    async def ask_fresh(self, query: Query[T]) -> T:
        """For the end of a run, on a new connection; the idle ones are closed, since they would fail too."""
        await self._pool.drain()
        async with self._taken(fresh=True) as conn:
            return await ask(conn, query)

    @asynccontextmanager
    async def _taken(self, *, fresh: bool) -> AsyncIterator[PooledConnection]:
        conn = await self._pool.take(fresh=fresh)
        try:
            yield conn
        finally:
            await self._pool.give(conn)

    @asynccontextmanager
    async def _lending(self, seconds: float | None) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                await self._for_jobs.acquire()
        except TimeoutError:
            raise NoneFree(
                f"all {self._lendable} connections that jobs may have at the same time are in use, and none came free"
                f" within {seconds:g} s while this job held one: leave its block before entering the next"
            ) from None
        try:
            yield
        finally:
            self._for_jobs.release()

    async def _begin(self, begin: str, first: Query[T], *, fresh: bool) -> tuple[PooledConnection, T]:
        conn = await self._pool.take(fresh=fresh)
        try:
            await send(conn, begin)
            return conn, await ask(conn, first)
        except BaseException:
            await self._end(conn)
            raise

    async def _end(self, conn: PooledConnection) -> None:
        if not conn.closed:
            with suppress(psycopg.Error):
                await conn.rollback()
        await self._pool.give(conn)

    def connect(self) -> Connection[Any]:
        """A plain connection for a thread of its own; the caller closes it."""
        return connect_sync(self.url, self._prepare_after)

    async def close(self) -> None:
        await self._pool.close()

    async def _open(self) -> PooledConnection:
        try:
            conn = await PooledConnection.opened(self.url)
            try:
                if self._pooler_unknown:
                    await self._detect_pooler(conn)
                # Set only now: another connection may have detected a pooler while this one was being opened.
                conn.prepare_threshold = self._prepare_after
            except BaseException:
                await conn.close()
                raise
        except psycopg.Error as error:
            raise Unreachable(sentence(error)) from error
        return conn

    async def _detect_pooler(self, conn: AsyncConnection[Any]) -> None:
        """Behind a pooler the backend that answers is not the one that greeted us: then nothing is prepared."""
        cursor = await conn.execute("select pg_catalog.pg_backend_pid()", prepare=False)
        row = await cursor.fetchone()
        if row is None or row[0] != conn.info.backend_pid:
            self._prepare_after = None
        self._pooler_unknown = False


def _is_reusable(conn: AsyncConnection[Any]) -> bool:
    # A closed connection has another status.
    return conn.pgconn.transaction_status == TransactionStatus.IDLE
