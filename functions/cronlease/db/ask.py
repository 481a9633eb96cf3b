"""One connection: asked through a cursor, or on the fast path straight through libpq; every failure is raised as
DatabaseTrouble.

A query is sent in whatever transaction the connection is in. The fast path is there because a cursor adapts its
parameters and its row anew for every query, which costs as much as the rest of a skip together. Whatever is not a
plain answer there is left to `ask`: each of our functions may be asked twice.
"""

import asyncio
import functools
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple, Self, TypeVar
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus

from cronlease.db.conninfo import conninfo_of, restyling
from cronlease.db.queries import Query, interval
from cronlease.db.sqlstate import meaning, unreadable
from cronlease.observe.logs import log

T = TypeVar("T")

_WRITTEN: dict[type, Callable[[Any], bytes | None]] = {
    str: str.encode,
    UUID: lambda value: str(value).encode(),
    bool: lambda value: b"t" if value else b"f",
    int: lambda value: b"%d" % value,
    timedelta: functools.cache(lambda value: interval(value).encode()),
    type(None): lambda _: None,
}


class Prepared(NamedTuple):
    """A query that the server knows by name, and what reads its row."""

    name: bytes
    transformer: Any


class PooledConnection(AsyncConnection[Any]):
    """A connection in autocommit mode that can also be asked on the fast path."""

    @classmethod
    async def opened(cls, url: str) -> Self:
        """A new one, which prepares nothing yet and whose notices are logged. Raises psycopg.Error."""
        conn = await cls.connect(conninfo_of(url), autocommit=True, prepare_threshold=None)
        conn.add_notice_handler(_log_notice)
        try:
            if statement := restyling(conn):
                await conn.execute(statement)
        except BaseException:
            await conn.close()
            raise
        return conn

    @functools.cached_property
    def own_cursor(self) -> AsyncCursor[Any]:
        """One for all of our own queries: a new cursor would look up every type again."""
        return self.cursor()

    @functools.cached_property
    def _known(self) -> dict[str, Prepared]:
        return {}

    async def ask_swiftly(self, query: Query[T], seconds: float) -> T | None:
        """The answer, or None where the server sends anything but a row: then the connection is closed. Raises
        Unreadable, or TimeoutError, after which the pool does not use the connection again."""
        deadline = asyncio.get_running_loop().time() + seconds
        known = result = None
        try:
            known = self._known.get(query.text) or await self._prepare(query, deadline)
            if known is not None:
                parameters = [_WRITTEN[type(value)](value) for value in query.params.values()]
                self.pgconn.send_query_prepared(known.name, parameters)
                result = await self._result(deadline)
        except psycopg.Error:
            result = None
        if known is None or result is None or result.status != ExecStatus.TUPLES_OK:
            self.pgconn.finish()
            return None
        try:
            known.transformer.set_pgresult(result)
            return query.read(known.transformer.load_row(0, tuple))
        except Exception as error:
            raise unreadable(error) from error

    async def _prepare(self, query: Query[Any], deadline: float) -> Prepared | None:
        known = Prepared(b"cronlease_%d" % len(self._known), Transformer(self))
        text = query.text % {name: f"${place}" for place, name in enumerate(query.params, start=1)}
        self.pgconn.send_prepare(known.name, text.encode())
        result = await self._result(deadline)
        if result is None or result.status != ExecStatus.COMMAND_OK:
            return None
        self._known[query.text] = known
        return known

    async def _result(self, deadline: float) -> Any:
        """The one result of what was sent, once the server is ready for the next; None when it could not be sent."""
        pgconn, last = self.pgconn, None
        if pgconn.flush() != 0:
            return None
        while True:
            while pgconn.is_busy():
                await self._readable(deadline)
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                return last
            last = result

    async def _readable(self, deadline: float) -> None:
        """Until something has arrived. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[None] = loop.create_future()
        descriptor = self.pgconn.socket
        loop.add_reader(descriptor, _settle, arrived, None)
        timer = loop.call_at(deadline, _settle, arrived, TimeoutError())
        try:
            await arrived
        finally:
            timer.cancel()
            loop.remove_reader(descriptor)


def _settle(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


async def ask(conn: AsyncConnection[Any], query: Query[T]) -> T:
    try:
        cursor = conn.own_cursor if isinstance(conn, PooledConnection) else conn.cursor()
        await cursor.execute(query.text, query.params)
    except psycopg.Error as error:
        raise meaning(error, lost=conn.closed) from error
    try:
        return query.read(await cursor.fetchone() or ())
    except Exception as error:
        raise unreadable(error) from error


def ask_sync(conn: Connection[Any], query: Query[T]) -> T:
    try:
        cursor = conn.execute(query.text, query.params)
    except psycopg.Error as error:
        raise meaning(error, lost=conn.closed) from error
    try:
        return query.read(cursor.fetchone() or ())
    except Exception as error:
        raise unreadable(error) from error


def ask_in_savepoint(conn: AsyncConnection[Any] | Connection[Any], query: Query[T]) -> T | Awaitable[T]:
    """The answer, to be awaited on an async connection. An error ends the query and not the caller's transaction."""
    if isinstance(conn, AsyncConnection):
        return _ask_in_savepoint(conn, query)
    with conn.transaction():
        return ask_sync(conn, query)


async def _ask_in_savepoint(conn: AsyncConnection[Any], query: Query[T]) -> T:
    async with conn.transaction():
        return await ask(conn, query)


async def send(conn: AsyncConnection[Any], text: str) -> None:
    """Sends statements that answer nothing, in one string."""
    try:
        await conn.execute(text)
    except psycopg.Error as error:
        raise meaning(error, lost=conn.closed) from error


def send_sync(conn: Connection[Any], text: str) -> None:
    try:
        conn.execute(text)
    except psycopg.Error as error:
        raise meaning(error, lost=conn.closed) from error


def cut(conn: AsyncConnection[Any] | Connection[Any]) -> None:
    """Ends the connection under whoever uses it, from any thread: cancels what runs, rolls back what is open."""
    with suppress(Exception):
        conn.cancel()
    with suppress(Exception), socket.socket(fileno=os.dup(conn.fileno())) as wire:
        wire.shutdown(socket.SHUT_RDWR)


def _log_notice(notice: psycopg.errors.Diagnostic) -> None:
    """Our functions warn of a frozen run, and of who must end it, and of args that nobody can read, beside their
    answer."""
    if notice.sqlstate == "CL005":
        log(logging.WARNING, f"A run stood still: {notice.message_primary}", action="frozen_run")
    elif notice.sqlstate == "CL006":
        text = f"Passed over a schedule: {notice.message_primary}; correct its row in refresh_schedule"
        log(logging.WARNING, text, action="args_unreadable")
