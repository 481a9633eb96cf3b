"""The fenced transaction: the schedule row is locked by request ID and fence before anything is written.

Data and lease share a database, so a run that lost its lease cannot commit: the whole design rests on this.
The same steps serve `async with` on the event loop and `with` in a plain job's thread.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from cronlease.db.ask import ask, ask_sync, send, send_sync
from cronlease.db.functions import assert_lease, renew_refresh_lock
from cronlease.db.guard import Left, lend
from cronlease.db.queries import Query, only_in
from cronlease.errors import CommitUnknown, ConnectionLost, LeaseLost, LeftOutside, NotPermitted, Unreadable
from cronlease.observe import telemetry
from cronlease.observe.redact import text_of
from cronlease.run.record import Record

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection


class Transaction:
    """One fenced transaction. Leaving it without an error finishes the run, or renews its lease, and commits.

    The last query shows its fence only in the transaction that locked the row. So a job that ended that transaction
    by itself, on the raw `pgconn` for instance, fails here.
    """

    def __init__(self, record: Record, *, finishes: bool = False) -> None:
        self._record = record
        self._database = record.database
        self._lease = record.lease
        self._blocks = record.blocks
        self._finishes = finishes
        self._name = "run.commit()" if finishes else "run.transaction()"
        self._fenced: Any = None
        self._conn: Any = None
        self._lent: Any = None
        self._id = ""
        self._left = Left(outside=False, changed="")
        self._asked_at = 0.0

    async def __aenter__(self) -> "AsyncConnection":
        with self._explained("it could not be entered"):
            patience = self._blocks.patience(self._lease.limits)
            self._fenced = self._database.fenced(self._begin_text(), self._fence(), patience)
            lent: AsyncConnection = self._entered(*await self._fenced.__aenter__())
        return lent

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._leave(error)
        try:
            if kind is not None:
                return
            with self._explained("it could not be left"):
                last = self._last_query()
                with self._span():
                    with self._inside():
                        answer = self._held(await ask(self._conn, last))
                    with self._confirmed():
                        await send(self._conn, "commit")
                self._committed(answer)
        finally:
            self._lease.leave_block()
            self._blocks.fenced = self._blocks.open = None
            await self._fenced.__aexit__(None, None, None)

    def __enter__(self) -> "Connection":
        with self._explained("it could not be entered"):
            conn = self._database.connect()
            try:
                send_sync(conn, self._begin_text())
                lent: Connection = self._entered(conn, ask_sync(conn, self._fence()))
                return lent
            except BaseException:
                conn.close()
                raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._leave(error)
        try:
            if kind is not None:
                return
            with self._explained("it could not be left"):
                last = self._last_query()
                with self._span():
                    with self._inside():
                        answer = self._held(ask_sync(self._conn, last))
                    with self._confirmed():
                        send_sync(self._conn, "commit")
                self._committed(answer)
        finally:
            self._lease.leave_block()
            self._blocks.fenced = self._blocks.open = None
            self._conn.close()

    def _begin_text(self) -> str:
        """The statements that begin the transaction, with every limit. Raises if the lease is known to be lost."""
        self._lease.check()
        if self._lease.in_a_block:
            raise RuntimeError("run.commit() and run.transaction() do not nest: leave one before entering the next")
        limits = self._lease.limits
        seconds = limits.lease.total_seconds()
        left = timedelta(seconds=max(0.001, self._lease.run_until - time.monotonic()))
        times = limits.lock_wait, limits.idle_in_transaction, left, limits.lease
        lock, idle, statement, vanished = (max(1, length // timedelta(milliseconds=1)) for length in times)
        return (
            "begin isolation level read committed;"
            f" set local lock_timeout = {lock};"
            f" set local idle_in_transaction_session_timeout = {idle};"
            f" set local statement_timeout = {statement};"
            # No limit above ends the wait for a client that has vanished. A slow one may take as long as the lease.
            f" set local tcp_user_timeout = {vanished};"
            f" set local tcp_keepalives_idle = {max(1, min(10, int(seconds / 4)))};"
            f" set local tcp_keepalives_interval = {max(1, min(5, int(seconds / 8)))};"
            " set local tcp_keepalives_count = 3"
        )

    def _entered(self, conn: Any, transaction: str) -> Any:
        self._conn, self._id = conn, transaction
        self._blocks.held += 1
        self._blocks.unsettled.add(transaction)
        self._blocks.fenced, self._blocks.open = conn, self._name
        self._record.to_save = None
        self._lease.enter_block()
        self._lent = lend(conn, self._name)
        return self._lent

    def _leave(self, error: BaseException | None) -> None:
        self._blocks.held -= 1
        # Before the last query: an error in that would take the changes of the session back.
        self._left = self._lent.leave()
        if self._left.outside:
            self._blocks.broken = self._name
        if isinstance(error, GeneratorExit):
            self._blocks.abandoned = f"the generator that held {self._name} was closed while the block was open"
        if error is not None:
            self._explain("its block raised", error)

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """A job may catch what is raised here and go on: then the end of the run says what it was."""
        try:
            yield
        except BaseException as error:
            self._explain(what, error)
            raise

    def _explain(self, what: str, error: BaseException) -> None:
        if self._finishes:
            self._blocks.uncommitted = f"{what}, {text_of(error)}"

    def _fence(self) -> Query[str]:
        return assert_lease(self._lease.function, self._lease.request_id, self._lease.fence)

    def _last_query(self) -> Query[Any]:
        if self._lease.given_up:
            raise LeaseLost("the run was given up, and its end is written: this comes too late")
        if self._left.outside:
            raise self._left_outside()
        self._lease.commit()
        self._asked_at = time.monotonic()
        if self._finishes:
            return only_in(self._id, self._record.success())
        # Until the commit our lock protects the row; from then on the renewed lease does.
        lease = self._lease
        renewal = renew_refresh_lock(
            lease.function, lease.request_id, lease.fence, lease.limits.lease, self._record.to_save
        )
        return only_in(self._id, renewal)

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """While our transaction has the row locked nobody can take the lease: if it is lost, so is that lock."""
        try:
            yield
        except LeaseLost as lost:
            raise self._left_outside() from lost
        except (NotPermitted, Unreadable) as trouble:
            # The session had the permission, and its answers could be read, before the job had it.
            what = f"if the job changed its role in {self._name}, reset it"
            if self._left.changed:
                what = f"the job changed {self._left.changed} of its session in {self._name}: reset it"
            text = f"{trouble}; {what} before the block is left"
            raise type(trouble)(text) from trouble

    @contextmanager
    def _confirmed(self) -> Iterator[None]:
        try:
            yield
        except ConnectionLost as lost:
            self._blocks.unconfirmed = True
            raise CommitUnknown(str(lost)) from lost

    def _held(self, answer: Any) -> Any:
        """The answer of a finish or of a renewal that was granted."""
        if not self._finishes and answer != "renewed":
            raise self._left_outside()
        return answer

    def _left_outside(self) -> LeftOutside:
        self._blocks.broken = self._name
        return LeftOutside(
            f"{self._name} was left outside the transaction that it opened: leave commit and rollback to the block,"
            " also on the raw pgconn"
        )

    def _span(self) -> telemetry.Span:
        return telemetry.span("finish" if self._finishes else "commit")

    def _committed(self, answer: Any) -> None:
        self._blocks.unsettled.discard(self._id)
        if self._finishes:
            self._lease.finish()
            self._record.end = answer
        else:
            self._blocks.pieces += 1
            self._lease.renewed(self._asked_at)
