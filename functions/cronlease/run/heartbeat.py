"""Renews the lease of a run in progress.

It has its own thread and its own connection, so neither a busy event loop nor a busy pool stops it.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from cronlease.db.ask import ask_sync
from cronlease.db.connection import Database
from cronlease.db.functions import renew_refresh_lock
from cronlease.errors import DatabaseTrouble
from cronlease.observe.logs import log
from cronlease.run.lease import Lease


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
        while not self._stop.wait(min(pause.total_seconds(), lease.seconds_left)) and not lease.finished:
            if lease.lost or lease.overdue:
                self._on_lost()
                break
            if lease.in_a_block:
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
                    **lease.attempt.who,
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
            if not self._stop.is_set():
                lease.lose()
            return timedelta(0)
        # Busy: nobody else can take a locked row, but its lease runs on, so look again soon.
        lease.hold_on()
        return min(timedelta(seconds=1), lease.limits.lease / 10)


def _close(connection: Any) -> Any:
    """Answers the connection there is afterwards: none."""
    if connection is not None:
        connection.close()
    return None
