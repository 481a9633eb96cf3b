"""A SQLAlchemy session in a fenced block, for jobs that use its ORM: `pip install 'cronlease[sqlalchemy]'`.

    with run.commit() as conn, session_on(conn) as session: ...
    async with run.commit() as conn, session_on(conn) as session: ...

Only a job imports it. SQLAlchemy believes that it owns the connection. Here each of its transactions, the session's
and those of other connections of its engine, is a savepoint of the block: a rollback returns to it, a commit leaves
the rest to the block, and what was not committed is undone. Leaving a session that has such changes raises.
"""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from importlib.util import find_spec
from itertools import count
from typing import Any, NoReturn, overload

import psycopg
from sqlalchemy import Connection, Engine, StaticPool, create_engine, event
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

_URL = "postgresql+psycopg://"
_POOL: dict[str, Any] = {"poolclass": StaticPool, "pool_reset_on_return": None}
_JOINED: dict[str, Any] = {"join_transaction_mode": "create_savepoint"}
# What the tags of statements that change nothing begin with, and a change inside a statement with the tag SELECT.
_READS = {"SELECT", "SHOW", "SET", "RESET", "EXPLAIN", "DECLARE", "FETCH", "MOVE", "CLOSE", "LOCK"}
_CHANGE_IN_WITH = re.compile(r"\bas\s+(?:(?:not\s+)?materialized\s*)?\(\s*(?:insert|update|delete|merge)\b", re.I)


@overload
def session_on(conn: psycopg.Connection[Any], **options: Any) -> AbstractContextManager[Session]: ...


@overload
def session_on(conn: psycopg.AsyncConnection[Any], **options: Any) -> AbstractAsyncContextManager[AsyncSession]: ...


def session_on(conn: Any, **options: Any) -> Any:
    """A session in the transaction of a fenced block; an AsyncSession on an async connection. Its commit releases a
    savepoint and its rollback returns to one. Leaving it with changes that were neither committed nor rolled back
    raises; a change that a function makes inside a select is not noticed. Leaving the fenced block commits. The
    options are Session's own."""
    if conn.autocommit:
        raise psycopg.ProgrammingError(
            "session_on(conn) needs the connection of run.commit() or run.transaction(): that of run.connection() has"
            " no transaction, so use an engine of your own there"
        )
    if isinstance(conn, psycopg.AsyncConnection):
        return _OnlyAsync(_async_session(conn, options))
    return _session(conn, options)


@contextmanager
def _session(conn: psycopg.Connection[Any], options: dict[str, Any]) -> Iterator[Session]:
    engine = create_engine(_URL, creator=lambda: conn, **_POOL)
    _Savepoints().serve(engine)
    with (
        engine.connect() as connection,
        connection.begin(),
        # Inside a savepoint, any session that a job makes on this connection joins with a savepoint of its own.
        connection.begin_nested(),
        Session(connection, **_JOINED, **options) as session,
    ):
        changes = _Changes(connection)
        yield session
        changes.refuse_loss(session)


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
        assert connection.sync_connection is not None
        changes = _Changes(connection.sync_connection)
        yield session
        changes.refuse_loss(session.sync_session)


class _OnlyAsync(AbstractAsyncContextManager[AsyncSession]):
    """Says which word is missing where `with` is used for `async with`."""

    def __init__(self, inner: AbstractAsyncContextManager[AsyncSession]) -> None:
        self._inner = inner

    async def __aenter__(self) -> AsyncSession:
        return await self._inner.__aenter__()

    async def __aexit__(self, *raised: Any) -> bool | None:
        return await self._inner.__aexit__(*raised)

    def __enter__(self) -> NoReturn:
        raise TypeError("this connection is async, and so is its session: use `async with session_on(conn)`")

    def __exit__(self, *_: object) -> None: ...


class _Changes:
    """Which savepoints of a connection, from the outermost to the innermost, hold changes. All of them were made by
    sessions; what is changed outside of them is committed with the block."""

    def __init__(self, connection: Connection) -> None:
        self._savepoints: dict[str, bool] = {}
        event.listen(connection, "after_cursor_execute", self._note)
        event.listen(connection, "rollback", lambda _: self._savepoints.clear())

    def refuse_loss(self, session: Session) -> None:
        """Raises if the end of the session would undo something. Also looks at what was not flushed yet."""
        waiting = session.new or session.deleted or any(map(session.is_modified, session.dirty))
        if waiting or any(self._savepoints.values()):
            raise psycopg.ProgrammingError(
                "the session has changes that were not committed: call session.commit() before leaving the block"
            )

    def _note(self, _: Connection, cursor: Any, statement: str, *__: Any) -> None:
        # SQLAlchemy wraps an async cursor, and shows of it what every driver has.
        tag = (getattr(cursor, "_cursor", cursor).statusmessage or "SELECT").split()[0]
        if tag == "SAVEPOINT":
            self._savepoints[statement.split()[-1]] = False
        elif tag in ("RELEASE", "ROLLBACK"):
            changed = self._end(statement.split()[-1])
            self._mark(changed and tag == "RELEASE")
        else:
            self._mark(cursor.rowcount != 0 if tag not in _READS else bool(_CHANGE_IN_WITH.search(statement)))

    def _end(self, name: str) -> bool:
        """Forgets a savepoint and those that were opened after it; True if they hold changes."""
        changed = False
        while name in self._savepoints:
            changed |= self._savepoints.popitem()[1]
        return changed

    def _mark(self, changed: bool) -> None:
        if changed and self._savepoints:
            self._savepoints[next(reversed(self._savepoints))] = True


class _Savepoints:
    """Stands in for an engine's transactions: a savepoint for each of its connections that has begun one. They share
    the block's only transaction, so they nest: ending one also ends those that were opened after it."""

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
        """Does nothing for a connection that has begun nothing, as for SQLAlchemy's own queries at the start."""
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
