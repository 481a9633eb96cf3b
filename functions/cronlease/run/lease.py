"""One run's lease as its own process sees it, and the heartbeat that keeps it.

The heartbeat has its own thread and its own connection, so neither a busy event loop nor a busy pool stops it.
Nothing here protects the data: the fence in the database does. This only ends a run early that cannot commit.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from cronlease.cadence import written
from cronlease.db.ask import ask_sync
from cronlease.db.connection import Database
from cronlease.db.functions import renew_refresh_lock
from cronlease.errors import DatabaseTrouble, LeaseLost, TimeIsUp
from cronlease.observe.logs import log
from cronlease.settings import Limits


class Lease:
    """Who holds what until when, on this process's monotonic clock; safe to use from any thread."""

    def __init__(self, function: str, request_id: UUID, fence: int, limits: Limits, asked_at: float) -> None:
        self.function = function
        self.request_id = request_id
        self.fence = fence
        self.limits = limits
        self.run_until = asked_at + limits.max_run.total_seconds()
        # Counted from before the question was sent, so it ends before the database's own.
        self._held_until = asked_at + limits.lease.total_seconds()
        self._taken = False
        self._resting = False
        self._closed = False
        # When somebody else's time is over, a dispatcher's for instance: the run ends then, and is not a failure.
        self.stop_at = math.inf
        # While it is set, a cancellation would leave the commit unknown; whoever wants to cancel waits.
        self.committing = False
        # The job did not end when it had to: what it still does must not count.
        self.given_up = False

    @property
    def lost(self) -> bool:
        """Somebody else has it, or it could not be renewed in time. Never while our transaction locks the row."""
        if self._closed or self._resting:
            return self._taken
        return self._taken or time.monotonic() >= self._held_until

    @property
    def overdue(self) -> bool:
        """The run is older than it may be."""
        return time.monotonic() >= self.run_until

    @property
    def interrupted(self) -> bool:
        """The run has to end though its lease and its own time would last."""
        return time.monotonic() >= self.stop_at

    @property
    def closed(self) -> bool:
        """The run has finished: there is nothing left to keep or to lose."""
        return self._closed

    @property
    def resting(self) -> bool:
        return self._resting

    @property
    def seconds_left(self) -> float:
        """Until the run must be looked at again: its lease or its time ends then."""
        kept = self._closed or self._resting
        ends = self.run_until if kept else min(self.run_until, self._held_until)
        return max(0.0, ends - time.monotonic())

    def check(self) -> None:
        """Raises LeaseLost or TimeIsUp when this run can no longer commit."""
        if self.lost:
            raise LeaseLost(f"run {self.request_id} no longer holds the lease of {self.function!r}")
        if self.interrupted:
            raise TimeIsUp("the process was told to stop, or has no more time for this run")
        if self.overdue:
            raise TimeIsUp(f"the run is older than {written(self.limits.max_run)}, CRONLEASE_MAX_RUN")

    def renewed(self, asked_at: float) -> None:
        self._held_until = max(self._held_until, asked_at + self.limits.lease.total_seconds())

    def hold_on(self) -> None:
        """The row is locked or has just been unlocked by us: time enough for the next renewal to tell."""
        grace = self.limits.renew_every.total_seconds()
        self._held_until = max(self._held_until, time.monotonic() + grace)

    def taken(self) -> None:
        self._taken = True

    def rest(self) -> None:
        """Our transaction has locked the row: that is the exclusion now, and renewing would only find it busy."""
        self._resting = True

    def resume(self) -> None:
        self.hold_on()
        self._resting = self.committing = False

    def close(self) -> None:
        self._closed = True


class Heartbeat:
    """Renews the lease at a third of it until the block ends, the lease is lost, or the run is too old."""

    def __init__(self, lease: Lease, database: Database, on_lost: Callable[[], None]) -> None:
        self._lease = lease
        self._database = database
        self._on_lost = on_lost
        self._stop = threading.Event()
        # A daemon: a renewal that hangs on a dead network must not keep the process from ending.
        self._thread = threading.Thread(target=self._beat, name=f"heartbeat {lease.request_id}", daemon=True)

    def start(self) -> None:
        """Raises RuntimeError where no thread is to be had."""
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _beat(self) -> None:
        lease = self._lease
        pause = lease.limits.renew_every
        connection: Any = None
        while not self._stop.wait(min(pause.total_seconds(), lease.seconds_left)) and not lease.closed:
            if lease.lost or lease.overdue:
                self._on_lost()
                break
            if lease.resting:
                pause = lease.limits.renew_every
                continue
            try:
                connection = connection or self._database.connect()
                pause = self._renew(connection)
            except DatabaseTrouble as trouble:
                log(
                    logging.WARNING,
                    f"Could not renew the lease, trying again: {trouble}",
                    action="renew_failed",
                    function=lease.function,
                    request_id=str(lease.request_id),
                )
                connection = _close(connection)
                pause = min(timedelta(seconds=1), lease.limits.lease / 10)
        _close(connection)

    def _renew(self, connection: Any) -> timedelta:
        """Asks once; answers how long to wait for the next time."""
        lease = self._lease
        asked_at = time.monotonic()
        query = renew_refresh_lock(lease.function, lease.request_id, lease.fence, lease.limits.lease)
        answer = ask_sync(connection, query)
        if answer == "renewed":
            lease.renewed(asked_at)
            return lease.limits.renew_every
        if answer == "lost":
            # Freed by our own finish, it only looks lost.
            if not (self._stop.is_set() or lease.closed or lease.resting):
                lease.taken()
            return timedelta(0)
        # Busy: nobody else can take a locked row, but its lease runs on, so look again soon.
        lease.hold_on()
        return min(timedelta(seconds=1), lease.limits.lease / 10)


def _close(connection: Any) -> Any:
    """Answers the connection there is afterwards: none."""
    if connection is not None:
        connection.close()
    return None
