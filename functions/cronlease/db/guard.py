"""The connection that a job gets: psycopg's own, except that only the block ends a fenced transaction.

The job has a connection object of its own on top of one of ours. It is dead once the block is left, so nothing that a
job sets on it reaches the pool. Every text that psycopg sends passes one of two methods: `_convert_query` of a cursor
(execute, executemany, stream, copy, declare; in pipelines, too) and `_exec_command` of the connection (commit,
savepoints, two-phase verbs). The raw `pgconn` is not watched: see Transaction for what happens then.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from psycopg import AsyncConnection, Connection
from psycopg._cursor_base import BaseCursor
from psycopg.errors import ProgrammingError
from psycopg.pq import Format, TransactionStatus
from psycopg.sql import Composable

from cronlease.db.statements import transaction_control

# To the type checker the mixin is Any: what it builds on is psycopg's base class, whose methods are generators that
# serve both sync and async.
if TYPE_CHECKING:
    _Base = Any
else:
    _Base = object


_REPORTED = {
    b"session_authorization": "session_authorization",
    # The role itself is not reported.
    b"is_superuser": "role",
    b"client_encoding": "client_encoding",
    b"DateStyle": "datestyle",
    b"IntervalStyle": "intervalstyle",
}


class Left(NamedTuple):
    """What a job leaves behind in the session of its block."""

    # The connection is open, and the transaction that the block opened is over.
    outside: bool
    # The settings that the job has changed, in words.
    changed: str


class Lent(_Base):  # type: ignore[misc]
    """Mixed into psycopg's connections. Without a block the connection is not fenced and may do anything."""

    block: str | None = None
    left = False
    _before: Mapping[str, bytes | None] = MappingProxyType({})

    @classmethod
    def connect(cls, *_: Any, **__: Any) -> NoReturn:
        """For SQLAlchemy's `Session(bind=conn)`. psycopg's own opens a new connection, to wherever libpq leads."""
        raise TypeError("this is psycopg's connection, not an engine: use cronlease.sqlalchemy.session_on(conn)")

    def enter(self, block: str) -> None:
        """From here on the connection is in the fenced block, named as the job wrote it."""
        self.block = block
        self._before = self._reported()

    def leave(self) -> Left:
        """From here on the connection is not the job's any more."""
        self.left = True
        changed = [name for name, value in self._reported().items() if value != self._before.get(name, value)]
        return Left(self.pgconn.transaction_status == TransactionStatus.IDLE, ", ".join(changed))

    def inspect(self, text: bytes) -> None:
        """Raises if the text has a statement that would end or begin a transaction."""
        if self.block is None:
            return
        backslashes = self.pgconn.parameter_status(b"standard_conforming_strings") == b"off"
        statement = transaction_control(text, self.pgconn._encoding, backslashes=backslashes)
        if statement is not None:
            self._refuse(f"`{statement}`")

    def _reported(self) -> dict[str, bytes | None]:
        """The settings of the session that the server reports by itself: who is connected, and how values are read
        and written. Empty if the connection is closed."""
        if self.closed:
            return {}
        return {words: self.pgconn.parameter_status(name) for name, words in _REPORTED.items()}

    def _start_query(self) -> Any:
        self._check_connection_ok()
        return super()._start_query()

    def _check_connection_ok(self) -> None:
        if self.left:
            raise ProgrammingError("this connection belongs to a block that was left: enter another one")
        super()._check_connection_ok()
        if self.block is not None and self.pgconn.transaction_status == TransactionStatus.IDLE:
            raise ProgrammingError(
                f"the transaction of {self.block} was ended by something other than the block:"
                " nothing can be written in it any more"
            )

    def _exec_command(self, command: Any, result_format: Format = Format.TEXT) -> Any:
        self._check_connection_ok()
        if isinstance(command, Composable):
            command = command.as_bytes(self)
        elif isinstance(command, str):
            command = command.encode(self.pgconn._encoding)
        self.inspect(command)
        return super()._exec_command(command, result_format)

    def _commit_gen(self) -> Any:
        self._own("conn.commit()")
        return super()._commit_gen()

    def _rollback_gen(self) -> Any:
        self._own("conn.rollback()")
        return super()._rollback_gen()

    def _check_intrans_gen(self, attribute: str) -> Any:
        self._own(f"a change of conn.{attribute}")
        return super()._check_intrans_gen(attribute)

    def _tpc_begin_gen(self, xid: Any) -> Any:
        self._own("conn.tpc_begin()")
        return super()._tpc_begin_gen(xid)

    def _tpc_prepare_gen(self) -> Any:
        self._own("conn.tpc_prepare()")
        return super()._tpc_prepare_gen()

    def _tpc_finish_gen(self, action: Any, xid: Any) -> Any:
        self._own(f"conn.tpc_{action.lower()}()")
        return super()._tpc_finish_gen(action, xid)

    def _own(self, verb: str) -> None:
        self._check_connection_ok()
        if self.block is not None:
            self._refuse(verb)

    def _refuse(self, what: str) -> NoReturn:
        raise ProgrammingError(
            f"{what} is refused inside {self.block}: leaving the block commits, and an error rolls it back."
            " Use conn.transaction() for a part that is undone alone"
        )


class LentConnection(Lent, Connection[Any]):
    def close(self) -> None:
        if not self.left and not self.closed:
            self._own("conn.close()")
            super().close()


class LentAsyncConnection(Lent, AsyncConnection[Any]):
    async def close(self) -> None:
        if not self.left and not self.closed:
            self._own("conn.close()")
            await super().close()


def lend(conn: Any, block: str | None = None) -> Any:
    """A connection for a job on top of this one of ours, until its `leave`. The fenced block, if it is in one, is
    named as the job wrote it."""
    lent = (LentAsyncConnection if isinstance(conn, AsyncConnection) else LentConnection)(conn.pgconn)
    if block is not None:
        lent.enter(block)
    lent._autocommit = block is None
    # Shared: one talks at a time, and the server knows each prepared statement by one name.
    lent.lock, lent._prepared = conn.lock, conn._prepared
    # The job does not have to close it, so psycopg must not warn that nobody did.
    lent._pool = None
    return lent


_convert_query = BaseCursor._convert_query


def _inspected(self: Any, query: Any, params: Any = None) -> Any:
    converted = _convert_query(self, query, params)
    if isinstance(self._conn, Lent):
        self._conn.inspect(converted.query)
    return converted


# In the base class, because a cursor may be of any class and made by anybody: psycopg itself reads the types of the
# database with `Cursor(conn)`, and so may a job.
BaseCursor._convert_query = _inspected  # type: ignore[method-assign]
