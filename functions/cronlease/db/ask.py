"""Sends queries on one connection, in whatever transaction it is in; every failure is raised as DatabaseTrouble."""

import functools
import logging
import os
import socket
import time
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Self, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection

from cronlease.db.conninfo import conninfo_of, restyling
from cronlease.db.queries import Query
from cronlease.db.sqlstate import meaning, unreadable
from cronlease.observe.logs import log

T = TypeVar("T")

_REPEATED_AFTER_SECONDS = 60.0
_MOST_REMEMBERED = 10_000
_logged_at: dict[str, float] = {}


class PooledConnection(AsyncConnection[Any]):
    """A connection in autocommit mode with one cursor for all of our own queries."""

    @classmethod
    async def opened(cls, url: str) -> Self:
        """A new connection, which prepares nothing yet and logs its notices. Raises psycopg.Error."""
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
    """The answer, awaitable on an async connection. An error ends the query, but not the caller's transaction."""
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
    """Besides their answer our functions send warnings: of a frozen run and who must end it, and of unreadable
    args."""
    if notice.sqlstate == "CL005":
        log(logging.WARNING, f"A run stood still: {notice.message_primary}", action="frozen_run")
    elif notice.sqlstate == "CL006" and _is_new(notice.message_primary or ""):
        text = f"Passed over a schedule: {notice.message_primary}; correct its row in refresh_schedule"
        log(logging.WARNING, text, action="args_unreadable")


def _is_new(text: str) -> bool:
    """Whether it has not been logged for a while: every claim passes the same rows."""
    now = time.monotonic()
    if now - _logged_at.get(text, -_REPEATED_AFTER_SECONDS) < _REPEATED_AFTER_SECONDS:
        return False
    if len(_logged_at) >= _MOST_REMEMBERED:
        _logged_at.clear()
    _logged_at[text] = now
    return True
