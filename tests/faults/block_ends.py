"""Every way in which a job could try to end its fenced transaction by itself, on a plain connection and on an async
one."""

from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import text as of_sqlalchemy

from cronlease.sqlalchemy import session_on

STATEMENTS = (
    "commit",
    "COMMIT WORK",
    "commit and chain",
    "rollback",
    "rollback and chain",
    "end",
    "end transaction",
    "abort",
    "begin",
    "start transaction",
    "prepare transaction 'mine'",
    "commit prepared 'mine'",
    "rollback prepared 'mine'",
    "/*x*/ commit",
    "-- x\ncommit",
    "select 1; commit",
    "select $$;$$; commit; begin",
    r"select e'\''; commit; --'",
)

Way = Callable[[Any, str], Any]
AsyncWay = Callable[[Any, str], Awaitable[Any]]


def plain_cursor(conn: Any, text: str) -> None:
    with conn.cursor() as cursor:
        cursor.execute(text, prepare=True)


def plain_many(conn: Any, text: str) -> None:
    with conn.cursor() as cursor:
        cursor.executemany(text, [(), ()])


def plain_pipeline(conn: Any, text: str) -> None:
    with conn.pipeline():
        conn.execute("select 1")
        conn.execute(text)


def plain_stream(conn: Any, text: str) -> None:
    list(conn.cursor().stream(text))


def plain_copy(conn: Any, text: str) -> None:
    with conn.cursor().copy(text):
        pass


def plain_server_cursor(conn: Any, text: str) -> None:
    with conn.cursor("mine") as cursor:
        cursor.execute(f"select 1; {text}")


def plain_session(conn: Any, text: str) -> None:
    with session_on(conn) as session:
        session.execute(of_sqlalchemy(text.replace(":", r"\:")))


PLAIN: dict[str, Way] = {
    "execute": lambda conn, text: conn.execute(text),
    "bytes": lambda conn, text: conn.execute(text.encode()),
    "composed": lambda conn, text: conn.execute(sql.SQL("{}").format(sql.SQL(text))),
    "client cursor": lambda conn, text: psycopg.ClientCursor(conn).execute(text),
    "raw cursor": lambda conn, text: psycopg.RawCursor(conn).execute(text),
    "internal": lambda conn, text: conn.wait(conn._exec_command(text)),
    "cursor": plain_cursor,
    "executemany": plain_many,
    "pipeline": plain_pipeline,
    "stream": plain_stream,
    "copy": plain_copy,
    "server cursor": plain_server_cursor,
    "SQLAlchemy": plain_session,
}


async def async_cursor(conn: Any, text: str) -> None:
    async with conn.cursor() as cursor:
        await cursor.execute(text, prepare=True)


async def async_many(conn: Any, text: str) -> None:
    async with conn.cursor() as cursor:
        await cursor.executemany(text, [(), ()])


async def async_pipeline(conn: Any, text: str) -> None:
    async with conn.pipeline():
        await conn.execute("select 1")
        await conn.execute(text)


async def async_stream(conn: Any, text: str) -> None:
    async for _ in conn.cursor().stream(text):
        pass


async def async_copy(conn: Any, text: str) -> None:
    async with conn.cursor().copy(text):
        pass


async def async_server_cursor(conn: Any, text: str) -> None:
    async with conn.cursor("mine") as cursor:
        await cursor.execute(f"select 1; {text}")


async def async_session(conn: Any, text: str) -> None:
    async with session_on(conn) as session:
        await session.execute(of_sqlalchemy(text.replace(":", r"\:")))


ASYNC: dict[str, AsyncWay] = {
    "execute": lambda conn, text: conn.execute(text),
    "bytes": lambda conn, text: conn.execute(text.encode()),
    "composed": lambda conn, text: conn.execute(sql.SQL("{}").format(sql.SQL(text))),
    "client cursor": lambda conn, text: psycopg.AsyncClientCursor(conn).execute(text),
    "raw cursor": lambda conn, text: psycopg.AsyncRawCursor(conn).execute(text),
    "internal": lambda conn, text: conn.wait(conn._exec_command(text)),
    "cursor": async_cursor,
    "executemany": async_many,
    "pipeline": async_pipeline,
    "stream": async_stream,
    "copy": async_copy,
    "server cursor": async_server_cursor,
    "SQLAlchemy": async_session,
}

VERBS: dict[str, Callable[[Any], Any]] = {
    "commit": lambda conn: conn.commit(),
    "rollback": lambda conn: conn.rollback(),
    "close": lambda conn: conn.close(),
    "autocommit": lambda conn: conn.set_autocommit(True),
    "isolation level": lambda conn: conn.set_isolation_level(psycopg.IsolationLevel.SERIALIZABLE),
    "read only": lambda conn: conn.set_read_only(True),
    "deferrable": lambda conn: conn.set_deferrable(True),
    "tpc_begin": lambda conn: conn.tpc_begin("mine"),
    "tpc_prepare": lambda conn: conn.tpc_prepare(),
    "tpc_commit": lambda conn: conn.tpc_commit("mine"),
    "tpc_rollback": lambda conn: conn.tpc_rollback("mine"),
}
