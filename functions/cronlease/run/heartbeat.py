"""Renews the leases of all runs in progress: one thread, one connection and one statement for each database.

They are the heartbeat's own, so neither a busy event loop nor a busy pool stops it. The thread lives while there are
leases, and a moment longer; the connection is opened for the first renewal, so a short run never opens one.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

from cronlease.db.ask import ask_sync
from cronlease.db.batches import Held, renew_refresh_locks
from cronlease.db.connection import Database
from cronlease.errors import DatabaseTrouble
from cronlease.observe.logs import log
from cronlease.run.lease import Lease

# How long the thread waits for another lease: starting one costs more than an empty run.
_LINGERS_SECONDS = 1.0


class Heartbeat:
    """Renews the leases of one database at a third of the shortest, each until it is let go, lost, or overdue."""

    def __init__(self) -> None:
        # What to call when a run has to end. The runs' threads change it and ours reads it: each access is atomic.
        self._leases: dict[Lease, Callable[[], None]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._beat_at = 0.0
        self._wakes_at = 0.0

    def __len__(self) -> int:
        return len(self._leases)

    def keep(self, lease: Lease, database: Database, on_lost: Callable[[], None]) -> None:
        """Keeps the lease until it is let go; on_lost is called, from another thread, when its run has to end. Raises
        RuntimeError if no thread can be started."""
        with self._changed:
            now = time.monotonic()
            first_beat = now + lease.limits.renew_every.total_seconds()
            self._beat_at = min(self._beat_at, first_beat) if self._leases else first_beat
            if self._thread is None or not self._thread.is_alive():
                # A daemon: a renewal that hangs on a dead network must not keep the process from ending.
                thread = threading.Thread(target=self._beat, args=[database], name="heartbeat", daemon=True)
                thread.start()
                self._thread = thread
            self._leases[lease] = on_lost
            if min(self._beat_at, now + lease.seconds_left) < self._wakes_at:
                self._changed.notify()

    def let_go(self, lease: Lease) -> None:
        self._leases.pop(lease, None)
        if not self._leases:
            # Nothing is left to wake up for: the thread closes its connection, and ends soon.
            with self._changed:
                self._changed.notify()

    def _beat(self, database: Database) -> None:
        connection: Any = None
        while (leases := self._wait(idle=connection is None)) is not None:
            for lease in leases:
                if lease.lost or lease.overdue:
                    self._end(lease)
            kept = [lease for lease in leases if lease in self._leases]
            if not kept:
                connection = _close(connection)
            elif time.monotonic() >= self._beat_at:
                self._beat_at = time.monotonic() + _shortest(kept) / 3
                due = [lease for lease in kept if not lease.finished and not lease.in_a_block]
                try:
                    if due:
                        connection = connection or database.connect()
                        self._renew(connection, due)
                except DatabaseTrouble as trouble:
                    _say_not_renewed(trouble, due)
                    connection = _close(connection)
                    self._beat_soon(due)
        _close(connection)

    def _wait(self, *, idle: bool) -> list[Lease] | None:
        """Waits until it is time to check the leases, and returns them; None when the thread has to end."""
        with self._changed:
            if not self._leases and idle:
                self._wakes_at = float("inf")
                if not self._changed.wait_for(lambda: self._leases, _LINGERS_SECONDS):
                    self._thread = None
                    return None
            if leases := list(self._leases):
                now = time.monotonic()
                self._wakes_at = min(self._beat_at, now + min(lease.seconds_left for lease in leases))
                self._changed.wait(max(0.0, self._wakes_at - now))
            return list(self._leases)

    def _renew(self, connection: Any, leases: Sequence[Lease]) -> None:
        asked_at = time.monotonic()
        query = renew_refresh_locks(
            [Held(lease.function, lease.request_id, lease.fence, lease.limits.lease) for lease in leases]
        )
        answers = ask_sync(connection, query)
        for lease in leases:
            answer = answers[str(lease.request_id)]
            if answer == "renewed":
                lease.renewed(asked_at)
            elif answer == "busy":
                # Nobody else can take a locked row, but its lease is running out, so try again soon.
                lease.hold_on()
                self._beat_soon([lease])
            elif lease in self._leases:
                lease.lose()
                if lease.lost:
                    self._end(lease)

    def _beat_soon(self, leases: Sequence[Lease]) -> None:
        self._beat_at = min(self._beat_at, time.monotonic() + min(1.0, _shortest(leases) / 10))

    def _end(self, lease: Lease) -> None:
        on_lost = self._leases.pop(lease, None)
        if on_lost is not None:
            on_lost()


_heartbeats: "WeakKeyDictionary[Database, Heartbeat]" = WeakKeyDictionary()
if hasattr(os, "register_at_fork"):
    # A forked process has none of its parent's threads and runs.
    os.register_at_fork(after_in_child=_heartbeats.clear)


def heartbeat_of(database: Database) -> Heartbeat:
    """This process's heartbeat for the database."""
    heartbeat = _heartbeats.get(database)
    if heartbeat is None:
        heartbeat = _heartbeats[database] = Heartbeat()
    return heartbeat


def _shortest(leases: Sequence[Lease]) -> float:
    return min(lease.limits.lease for lease in leases) / timedelta(seconds=1)


def _say_not_renewed(trouble: DatabaseTrouble, leases: Sequence[Lease]) -> None:
    which = "the lease" if len(leases) == 1 else f"{len(leases)} leases"
    log(
        logging.WARNING,
        f"Could not renew {which}, trying again: {trouble}",
        action="renew_failed",
        **leases[0].attempt.who,
    )


def _close(connection: Any) -> Any:
    """Returns None, which takes the place of the connection."""
    if connection is not None:
        connection.close()
    return None
