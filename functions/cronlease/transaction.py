"""The fenced transaction: the schedule row is locked by request ID and fence before anything is written.

Data and lease share a database, so a run that lost its lease cannot commit: this is the edge of the whole design.
The same steps serve `async with` on the event loop and `with` in a plain job's thread.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from cronlease import telemetry
from cronlease.database import Database, ask, ask_plain, cut, in_transaction, send, send_plain
from cronlease.lease import Lease
from cronlease.trouble import CommitUnknown, ConnectionLost, LeaseLost
from cronlease.wall import Finish, Query, assert_lease, renew_refresh_lock


class Transaction:
    """One fenced transaction. Leaving it well either finishes the run or renews its lease, then commits."""

    def __init__(
        self,
        database: Database,
        lease: Lease,
        finish: Callable[[], Query[Finish]] | None = None,
        on_finished: Callable[[Finish], None] | None = None,
    ) -> None:
        self._database = database
        self._lease = lease
        self._finish = finish
        self._on_finished = on_finished
        self._conn: Any = None
        self._asked_at = 0.0

    async def __aenter__(self) -> Any:
        self._conn = await self._database.begin(self._opening(), self._fence())
        self._lease.rest()
        return self._conn

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                last = self._last_word()
                with self._span():
                    answer = await ask(self._conn, last)
                    try:
                        await send(self._conn, "commit")
                    except ConnectionLost as lost:
                        raise CommitUnknown(str(lost)) from lost
                self._committed(answer)
        finally:
            self._lease.resume()
            conn, self._conn = self._conn, None
            await self._database.end(conn)

    def __enter__(self) -> Any:
        self._conn = self._database.connect()
        try:
            send_plain(self._conn, self._opening())
            ask_plain(self._conn, self._fence())
        except BaseException:
            self._conn.close()
            raise
        self._lease.rest()
        return self._conn

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                last = self._last_word()
                with self._span():
                    answer = ask_plain(self._conn, last)
                    try:
                        send_plain(self._conn, "commit")
                    except ConnectionLost as lost:
                        raise CommitUnknown(str(lost)) from lost
                self._committed(answer)
        finally:
            self._lease.resume()
            self._conn.close()

    def cut(self) -> None:
        """Under a job that was given up: nothing of it is committed, and its row is free for the end of the run."""
        if self._conn is not None:
            cut(self._conn)

    def _opening(self) -> str:
        """Raises when the lease is known to be lost; else the begin, with every limit, as one string."""
        self._lease.check()
        if self._lease.resting:
            raise RuntimeError(
                "run.commit() and run.transaction() do not nest: leave the one before entering the next"
            )
        limits = self._lease.limits
        seconds = limits.lease.total_seconds()
        left = timedelta(seconds=max(0.001, self._lease.run_until - time.monotonic()))
        return (
            "begin isolation level read committed;"
            f" set local lock_timeout = {_milliseconds(limits.lock_wait)};"
            f" set local idle_in_transaction_session_timeout = {_milliseconds(limits.idle_in_transaction)};"
            f" set local statement_timeout = {_milliseconds(left)};"
            # No limit above ends the wait for a client that has vanished. A live one has a lease's time to read on.
            f" set local tcp_user_timeout = {_milliseconds(limits.lease)};"
            f" set local tcp_keepalives_idle = {max(1, min(10, int(seconds / 4)))};"
            f" set local tcp_keepalives_interval = {max(1, min(5, int(seconds / 8)))};"
            " set local tcp_keepalives_count = 3"
        )

    def _fence(self) -> Query[None]:
        return assert_lease(self._lease.function, self._lease.request_id, self._lease.fence)

    def _last_word(self) -> Query[Any]:
        if self._lease.given_up:
            raise LeaseLost("the run was given up, and its end is written: this comes too late")
        if not in_transaction(self._conn):
            raise RuntimeError("the job ended the transaction itself: leave commit and rollback to the block")
        self._lease.committing = True
        self._asked_at = time.monotonic()
        if self._finish is not None:
            return self._finish()
        # The row is ours until the commit; from then on a fresh lease is.
        lease = self._lease
        return renew_refresh_lock(lease.function, lease.request_id, lease.fence, lease.limits.lease)

    def _span(self) -> telemetry.Span:
        return telemetry.span("finish" if self._finish is not None else "commit")

    def _committed(self, answer: Any) -> None:
        if self._on_finished is None:
            self._lease.renewed(self._asked_at)
        else:
            self._lease.close()
            self._on_finished(answer)


def _milliseconds(length: timedelta) -> int:
    return max(1, int(length.total_seconds() * 1000))
