"""A SQLAlchemy session in a fenced block, for jobs that use its ORM: `pip install 'cronlease[sqlalchemy]'`.

    with run.commit() as conn, session_on(conn) as session: ...
    async with run.commit() as conn, session_on(conn) as session: ...

Imported by nobody but a job. SQLAlchemy believes that it owns the connection. Here each of its transactions, the
session's and those of other connections of its engine, is a savepoint of the block: a rollback undoes what was done
since, a commit leaves it to the block, and what was not committed is undone.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from importlib.util import find_spec
from itertools import count
from typing import Any, NoReturn, overload

import psycopg
from sqlalchemy import Engine, StaticPool, create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

_URL = "postgresql+psycopg://"
_POOL: dict[str, Any] = {"poolclass": StaticPool, "pool_reset_on_return": None}
_JOINED: dict[str, Any] = {"join_transaction_mode": "create_savepoint"}


@overload
def session_on(conn: psycopg.Connection[Any], **options: Any) -> AbstractContextManager[Session]: ...


@overload
def session_on(conn: psycopg.AsyncConnection[Any], **options: Any) -> AbstractAsyncContextManager[AsyncSession]: ...


def session_on(conn: Any, **options: Any) -> Any:
    """A session in the transaction of a fenced block; an AsyncSession on an async connection. Its commit releases a
    savepoint and its rollback returns to one; what it has not committed when it is left is undone, as ever. Leaving
    the fenced block commits. The options are Session's own."""
    if conn.autocommit:
        raise psycopg.ProgrammingError(
            "session_on(conn) needs the connection of run.commit() or run.transaction(): that of run.connection() has"
            " no transaction, so use an engine of your own there"
        )
    return (_async_session if isinstance(conn, psycopg.AsyncConnection) else _session)(conn, options)


@contextmanager
def _session(conn: psycopg.Connection[Any], options: dict[str, Any]) -> Iterator[Session]:
    engine = create_engine(_URL, creator=lambda: conn, **_POOL)
    _Savepoints().serve(engine)
    with (
        engine.connect() as connection,
        connection.begin(),
        # In a savepoint, any session that a job makes on this connection joins with one of its own.
        connection.begin_nested(),
        Session(connection, **_JOINED, **options) as session,
    ):
        yield session


@asynccontextmanager
async def _async_session(conn: psycopg.AsyncConnection[Any], options: dict[str, Any]) -> AsyncIterator[AsyncSession]:
    async def creator(*_: Any, **__: Any) -> psycopg.AsyncConnection[Any]:
        return conn

    if find_spec("greenlet") is None:
        raise ImportError("an AsyncSession needs greenlet: pip install 'cronlease[sqlalchemy]'")
    engine = create_async_engine(_URL, async_creator=creator, **_POOL)
    _Savepoints().serve(engine.sync_engine)
    async with (
        engine.connect() as connection,
        connection.begin(),
        connection.begin_nested(),
        AsyncSession(connection, **_JOINED, **options) as session,
    ):
        yield session


class _Savepoints:
    """What an engine takes for transactions: a savepoint for each of its connections that has begun one. They share
    the block's only transaction, so they nest: one that is ended takes those that were opened after it along."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._numbers = count(1)

    def serve(self, engine: Engine) -> None:
        dialect: Any = engine.dialect
        dialect.do_begin, dialect.do_commit, dialect.do_rollback = self._begin, self._commit, self._rollback
        dialect.do_begin_twophase = _refuse_two_phases
        dialect.do_close = dialect.do_terminate = lambda _: None

    def _begin(self, connection: Any) -> None:
        name = f"cronlease_{next(self._numbers)}"
        _send(connection, f"savepoint {name}")
        self._names[connection] = name

    def _commit(self, connection: Any) -> None:
        if (name := self._names.pop(connection, None)) is not None:
            _send(connection, f"release savepoint {name}")

    def _rollback(self, connection: Any) -> None:
        """Does nothing for a connection that has begun nothing, as SQLAlchemy's own questions at the start."""
        if (name := self._names.pop(connection, None)) is not None:
            _send(connection, f"rollback to savepoint {name}")
            _send(connection, f"release savepoint {name}")


def _send(connection: Any, statement: str) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute(statement)
    except psycopg.errors.InvalidSavepointSpecification as error:
        raise psycopg.ProgrammingError(
            "the connections of one session_on(conn) share the transaction of its block, so they nest: one that was"
            " begun before this one has ended it"
        ) from error
    finally:
        cursor.close()


def _refuse_two_phases(*_: Any) -> NoReturn:
    raise psycopg.ProgrammingError("a two-phase transaction is refused in a fenced block: leaving the block commits")
