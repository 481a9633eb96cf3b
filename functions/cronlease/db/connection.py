"""The database as one process sees it: its pool of connections, and who may have how many of them.

Only db/ knows psycopg, apart from the modules that tests/unit/test_house.py lists.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus

from cronlease.db.ask import ask, send
from cronlease.db.conninfo import connect_sync, conninfo_of, restyling
from cronlease.db.pool import Pool
from cronlease.db.queries import Query
from cronlease.db.sqlstate import sentence
from cronlease.db.swift import PooledConnection
from cronlease.errors import ConnectionLost, NoneFree, Unreachable
from cronlease.observe.logs import log

T = TypeVar("T")

POOL_SIZE = 8
# Jobs never get the last two connections, requests never the last one: the end of a run always finds one.
_KEPT_FROM_JOBS = 2
_KEPT_FOR_ENDS = 1
_PREPARE_AFTER = 2
_REPORTED = {
    b"session_authorization": "session_authorization",
    # The role itself is not reported.
    b"is_superuser": "role",
    b"client_encoding": "client_encoding",
    b"DateStyle": "datestyle",
    b"IntervalStyle": "intervalstyle",
}


def is_idle(conn: AsyncConnection[Any] | Connection[Any]) -> bool:
    """Whether the connection is open and in no transaction."""
    return conn.info.transaction_status == TransactionStatus.IDLE


def reported_settings(conn: AsyncConnection[Any] | Connection[Any]) -> dict[str, bytes | None]:
    """What of its session the server has told without being asked: who is connected, and how it reads and writes.
    Nothing where the connection is closed."""
    if conn.closed:
        return {}
    return {words: conn.pgconn.parameter_status(name) for name, words in _REPORTED.items()}


def cut(conn: AsyncConnection[Any] | Connection[Any]) -> None:
    """Ends the connection under whoever uses it, from any thread: cancels what runs, rolls back what is open."""
    with suppress(Exception):
        conn.cancel()
    with suppress(Exception), socket.socket(fileno=os.dup(conn.fileno())) as wire:
        wire.shutdown(socket.SHUT_RDWR)


class Database:
    """One database as one process sees it: a pool of autocommit connections. Belongs to one event loop."""

    def __init__(self, url: str, *, pooler: str = "auto", size: int = POOL_SIZE) -> None:
        self.url = url
        self._prepare_after = None if pooler == "transaction" else _PREPARE_AFTER
        self._pooler_unknown = pooler == "auto"
        self._lendable = max(1, size - _KEPT_FROM_JOBS)
        self._for_jobs = asyncio.Semaphore(self._lendable)
        self._for_all_but_ends = asyncio.Semaphore(max(1, size - _KEPT_FOR_ENDS))
        self._pool: Pool[PooledConnection] = Pool(self._open, _close, _is_reusable, size)

    @asynccontextmanager
    async def connection(self, *, fresh: bool = False) -> AsyncIterator[PooledConnection]:
        """A connection in autocommit mode until the block ends; one left in a transaction is thrown away."""
        async with self._for_all_but_ends, self._taken(fresh=fresh) as conn:
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
        try:
            async with self.connection() as conn:
                return await ask(conn, query)
        except ConnectionLost:
            await self._pool.drain()
            async with self.connection(fresh=True) as conn:
                return await ask(conn, query)

    async def ask_at_the_end(self, query: Query[T]) -> T:
        """The same for the end of a run, which waits for neither jobs nor requests."""
        try:
            async with self._taken(fresh=False) as conn:
                return await ask(conn, query)
        except ConnectionLost:
            return await self.ask_fresh(query)

    async def ask_idle(self, query: Query[T], seconds: float) -> T | None:
        """The fast path of requests, on an idle connection; None where that gives no answer. Raises TimeoutError."""
        if self._prepare_after is None or self._for_all_but_ends.locked():
            return None
        # Not locked, so this does not wait.
        async with self._for_all_but_ends:
            conn = await self._pool.take_idle()
            if conn is None:
                return None
            try:
                return await conn.ask_swiftly(query, seconds)
            finally:
                await self._pool.give(conn)

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
            conn = await PooledConnection.connect(
                conninfo_of(self.url), autocommit=True, prepare_threshold=self._prepare_after
            )
            conn.add_notice_handler(_log_notice)
            try:
                if statement := restyling(conn):
                    await conn.execute(statement)
                if self._pooler_unknown:
                    await self._detect_pooler(conn)
                # Another connection may have detected one while this one was being opened.
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


def _log_notice(notice: psycopg.errors.Diagnostic) -> None:
    """Our functions warn of a frozen run, and of who must end it, and of args that nobody can read, beside their
    answer."""
    if notice.sqlstate == "CL005":
        log(logging.WARNING, f"A run stood still: {notice.message_primary}", action="frozen_run")
    elif notice.sqlstate == "CL006":
        text = f"Passed over a schedule: {notice.message_primary}; correct its row in refresh_schedule"
        log(logging.WARNING, text, action="args_unreadable")


async def _close(conn: AsyncConnection[Any]) -> None:
    await conn.close()


def _is_reusable(conn: AsyncConnection[Any]) -> bool:
    # A closed connection has another status.
    return conn.pgconn.transaction_status == TransactionStatus.IDLE
