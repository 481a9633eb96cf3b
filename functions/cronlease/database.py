"""The way to the wall: connections, the pool of them, and what the wall's errors mean.

With swift.py the only importer of psycopg beside the emulator. A query of wall.py is sent with `ask` on an async
connection and with `ask_plain` on a plain one.
"""

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from cronlease.pool import Pool
from cronlease.swift import SwiftConnection
from cronlease.trouble import (
    ConnectionLost,
    Contended,
    DatabaseTrouble,
    LeaseLost,
    Mismatch,
    NotPermitted,
    SchemaMissing,
    UnknownSchedule,
    Unreachable,
)
from cronlease.wall import Query

T = TypeVar("T")

POOL_SIZE = 8
_PREPARE_AFTER = 2
_CONNECTION = {
    "application_name": "cronlease",
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


_MEANING: dict[str, type[DatabaseTrouble]] = {
    "CL001": LeaseLost,
    "CL002": UnknownSchedule,
    "40001": Contended,
    "40P01": Contended,
    "55P03": Contended,
    "42883": SchemaMissing,
    "42P01": SchemaMissing,
    "42703": SchemaMissing,
    "42501": NotPermitted,
    "42P13": Mismatch,
    "42P16": Mismatch,
    # The schema was migrated under a prepared statement: as good as a lost connection, a new one has the new plan.
    "0A000": ConnectionLost,
    "26000": ConnectionLost,
}


_UNREADABLE_URL = (
    "DATABASE_URL cannot be read: write postgresql://user@host:5432/name with the password percent-encoded,"
    " or in PGPASSWORD"
)


class PooledConnection(SwiftConnection):
    """A connection with one cursor for all our own queries: a new cursor would look up every type again."""

    @functools.cached_property
    def kept(self) -> AsyncCursor[Any]:
        return self.cursor()


async def ask(conn: AsyncConnection[Any], query: Query[T]) -> T:
    """Sends the query in whatever transaction the connection is in; raises DatabaseTrouble."""
    try:
        cursor = conn.kept if isinstance(conn, PooledConnection) else conn.cursor()
        await cursor.execute(query.text, query.params)
        row = await cursor.fetchone()
    except psycopg.Error as error:
        raise meaning(error, lost=conn.closed) from error
    assert row is not None, "each of our functions answers one row"
    return query.read(row)


def ask_plain(conn: Connection[Any], query: Query[T]) -> T:
    try:
        row = conn.execute(query.text, query.params).fetchone()
    except psycopg.Error as error:
        raise meaning(error, lost=conn.closed) from error
    assert row is not None, "each of our functions answers one row"
    return query.read(row)


async def send(conn: AsyncConnection[Any], text: str) -> None:
    """Sends statements that answer nothing, in one string."""
    try:
        await conn.execute(text)
    except psycopg.Error as error:
        raise meaning(error, lost=conn.closed) from error


def send_plain(conn: Connection[Any], text: str) -> None:
    try:
        conn.execute(text)
    except psycopg.Error as error:
        raise meaning(error, lost=conn.closed) from error


def in_transaction(conn: AsyncConnection[Any] | Connection[Any]) -> bool:
    return conn.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)


def meaning(error: psycopg.Error, *, lost: bool) -> DatabaseTrouble:
    """What the error says about the lease; one of the classes above."""
    kind = _MEANING.get(error.sqlstate or "", ConnectionLost if lost else DatabaseTrouble)
    return kind(sentence(error))


def sentence(error: psycopg.Error) -> str:
    """What the server said, in one line, without the statement it said it about."""
    return error.diag.message_primary or " ".join(str(error).split())


def conninfo_of(url: str) -> str:
    """The connection string with our time limits, except where it sets its own. A malformed one is not echoed, and
    neither is one that libpq reads otherwise than it was meant: its parts may be parts of a password."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        raise Unreachable(_UNREADABLE_URL) from None
    shifted = any("@" in str(given.get(part) or "") for part in ("host", "dbname"))
    if shifted or not str(given.get("port") or "0").replace(",", "").isdigit():
        raise Unreachable(_UNREADABLE_URL)
    return make_conninfo("", **{**_CONNECTION, **given})


def connect_plain(url: str, prepare_after: int | None = None) -> Connection[Any]:
    """A plain connection in autocommit mode; the caller closes it."""
    try:
        return Connection.connect(conninfo_of(url), autocommit=True, prepare_threshold=prepare_after)
    except psycopg.Error as error:
        raise Unreachable(sentence(error)) from None


class Database:
    """One database as one process sees it: a pool of autocommit connections. Belongs to one event loop."""

    def __init__(self, url: str, *, pooler: str = "auto") -> None:
        self.url = url
        self._prepare_after = None if pooler == "transaction" else _PREPARE_AFTER
        self._pooler_unknown = pooler == "auto"
        self._pool: Pool[PooledConnection] = Pool(self._open, _close, _is_reusable, POOL_SIZE)

    @asynccontextmanager
    async def connection(self, *, fresh: bool = False) -> AsyncIterator[PooledConnection]:
        """A connection in autocommit mode, ours until the block ends; left in a transaction, it is thrown away."""
        conn = await self._pool.take(fresh=fresh)
        try:
            yield conn
        finally:
            await self._pool.give(conn)

    async def ask(self, query: Query[T]) -> T:
        """One round trip, tried once more on a new connection when one is lost: our functions allow that."""
        try:
            async with self.connection() as conn:
                return await ask(conn, query)
        except ConnectionLost:
            return await self.ask_fresh(query)

    async def ask_idle(self, query: Query[T], seconds: float) -> T | None:
        """The short way, for hits: on an idle connection; None where that does not settle it. Raises TimeoutError."""
        if self._prepare_after is None:
            return None
        conn = await self._pool.take_idle()
        if conn is None:
            return None
        try:
            return await conn.ask_swiftly(query, seconds)
        finally:
            await self._pool.give(conn)

    async def ask_fresh(self, query: Query[T]) -> T:
        """The same on a connection opened for it; the idle ones are given up, they would fail too."""
        await self._pool.drain()
        async with self.connection(fresh=True) as conn:
            return await ask(conn, query)

    async def begin(self, opening: str, first: Query[Any]) -> PooledConnection:
        """A connection in a transaction in which `first` was answered; give it back with `end`."""
        try:
            return await self._begin(opening, first, fresh=False)
        except ConnectionLost:
            await self._pool.drain()
            return await self._begin(opening, first, fresh=True)

    async def _begin(self, opening: str, first: Query[Any], *, fresh: bool) -> PooledConnection:
        conn = await self._pool.take(fresh=fresh)
        try:
            await send(conn, opening)
            await ask(conn, first)
        except BaseException:
            await self.end(conn)
            raise
        return conn

    async def end(self, conn: PooledConnection) -> None:
        """Takes the connection back; a transaction still open is rolled back first."""
        if not conn.closed:
            with suppress(psycopg.Error):
                await conn.rollback()
        await self._pool.give(conn)

    def connect(self) -> Connection[Any]:
        """A plain connection for a thread of its own; the caller closes it."""
        return connect_plain(self.url, self._prepare_after)

    async def close(self) -> None:
        await self._pool.drain()

    async def _open(self) -> PooledConnection:
        try:
            conn = await PooledConnection.connect(
                conninfo_of(self.url), autocommit=True, prepare_threshold=self._prepare_after
            )
            if self._pooler_unknown:
                await self._look_for_a_pooler(conn)
        except psycopg.Error as error:
            raise Unreachable(sentence(error)) from None
        return conn

    async def _look_for_a_pooler(self, conn: AsyncConnection[Any]) -> None:
        """Behind a pooler the process that greeted us is not the one that answers: then prepare nothing."""
        cursor = await conn.execute("select pg_catalog.pg_backend_pid()", prepare=False)
        row = await cursor.fetchone()
        if row is None or row[0] != conn.info.backend_pid:
            self._prepare_after = conn.prepare_threshold = None
        self._pooler_unknown = False


async def _close(conn: AsyncConnection[Any]) -> None:
    await conn.close()


def _is_reusable(conn: AsyncConnection[Any]) -> bool:
    # A closed one has another status.
    return conn.pgconn.transaction_status == TransactionStatus.IDLE
