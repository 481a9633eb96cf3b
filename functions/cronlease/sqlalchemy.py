"""A SQLAlchemy session in a fenced block, for jobs that use its ORM: `pip install 'cronlease[sqlalchemy]'`.

    with run.commit() as conn, session_on(conn) as session: ...
    async with run.commit() as conn, session_on(conn) as session: ...

Imported by nobody but a job. SQLAlchemy believes that it owns the connection; what ends a transaction or a connection
does nothing here, because the block does it.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, overload

import psycopg
from sqlalchemy import Engine, StaticPool, create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

_URL = "postgresql+psycopg://"
_POOL: dict[str, Any] = {"poolclass": StaticPool, "pool_reset_on_return": None}
_JOINED: dict[str, Any] = {"join_transaction_mode": "create_savepoint"}
_ENDS = ("do_commit", "do_rollback", "do_close", "do_terminate")


@overload
def session_on(conn: psycopg.Connection[Any], **options: Any) -> AbstractContextManager[Session]: ...


@overload
def session_on(conn: psycopg.AsyncConnection[Any], **options: Any) -> AbstractAsyncContextManager[AsyncSession]: ...


def session_on(conn: Any, **options: Any) -> Any:
    """A session in the transaction of a fenced block; an AsyncSession on an async connection. Its commit releases a
    savepoint and its rollback returns to one; what it has not committed when it is left is undone, as ever. Leaving
    the fenced block commits. The options are Session's own."""
    return (_async_session if isinstance(conn, psycopg.AsyncConnection) else _session)(conn, options)


@contextmanager
def _session(conn: psycopg.Connection[Any], options: dict[str, Any]) -> Iterator[Session]:
    engine = create_engine(_URL, creator=lambda: conn, **_POOL)
    _leave_the_end_to_the_block(engine)
    with engine.connect() as connection, connection.begin(), Session(connection, **_JOINED, **options) as session:
        yield session


@asynccontextmanager
async def _async_session(conn: psycopg.AsyncConnection[Any], options: dict[str, Any]) -> AsyncIterator[AsyncSession]:
    async def creator(*_: Any, **__: Any) -> psycopg.AsyncConnection[Any]:
        return conn

    engine = create_async_engine(_URL, async_creator=creator, **_POOL)
    _leave_the_end_to_the_block(engine.sync_engine)
    async with (
        engine.connect() as connection,
        connection.begin(),
        AsyncSession(connection, **_JOINED, **options) as session,
    ):
        yield session


def _leave_the_end_to_the_block(engine: Engine) -> None:
    for name in _ENDS:
        setattr(engine.dialect, name, lambda _: None)
