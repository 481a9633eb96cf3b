"""Sends a query on one connection, in whatever transaction that is in; every failure is raised as DatabaseTrouble."""

from collections.abc import Awaitable
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection

from cronlease.db.queries import Query
from cronlease.db.sqlstate import meaning, unreadable
from cronlease.db.swift import PooledConnection

T = TypeVar("T")


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
