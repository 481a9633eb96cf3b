"""Faults of processes: kills, pauses and terminates the function's workers, and crashes the database. Runs on the
main thread, which starts and ends processes."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from cronlease.db.queries import load_queries
from cronlease.embedded.server import EmbeddedPostgres
from cronlease.emulator.faults import Dice, Faults
from cronlease.emulator.function import EmulatorError, FunctionProcess

# A paused run stays paused this long after its lease expired, so that another run takes over while both are alive.
_TAKE_OVER_SECONDS = 1.0
_GRACE_SECONDS = 1.0


class Chaos:
    """Call `tick` repeatedly; `end` makes sure that nothing stays paused."""

    def __init__(
        self,
        faults: Faults,
        dice: Dice,
        function: FunctionProcess,
        server: EmbeddedPostgres | None,
        conninfo: str,
        report: Callable[[str], None],
    ) -> None:
        check(faults, server)
        self._dice = dice
        self._function = function
        self._server = server
        self._conninfo = conninfo
        self._report = report
        wanted: list[tuple[float, Callable[[], bool]]] = [
            (faults.kill_every, self._kill),
            (faults.pause_every, self._pause),
            (faults.sigterm_every, self._sigterm),
            (faults.db_restart_every, self._restart_database),
        ]
        self._wanted = {act: every for every, act in wanted if every}
        now = time.monotonic()
        self._due = {act: now + every * dice.random.uniform(0.4, 0.8) for act, every in self._wanted.items()}
        self._not_before = now
        self._paused: int | None = None
        self._resume_at = 0.0

    def tick(self) -> None:
        """Does what is due; what cannot be done now is tried again at the next call."""
        if self._paused is not None:
            # No other fault until then: the run that takes over has to survive.
            if time.monotonic() < self._resume_at:
                return
            self._resume()
            self._grant_a_moment()
        # The one that has waited longest goes first, so that frequent faults do not keep out the others.
        for act in sorted(self._wanted, key=self._due.__getitem__):
            if self._is_time_for(act) and act():
                self._due[act] = time.monotonic() + self._wanted[act] * self._dice.random.uniform(0.7, 1.3)
                self._grant_a_moment()

    def _is_time_for(self, act: Callable[[], bool]) -> bool:
        return self._paused is None and time.monotonic() >= max(self._due[act], self._not_before)

    def _grant_a_moment(self) -> None:
        """Spaces faults out: a function under constant faults commits nothing that could be wrong."""
        self._not_before = time.monotonic() + _GRACE_SECONDS

    def end(self) -> None:
        self._wanted = {}
        self._resume()

    def _kill(self) -> bool:
        return self._signal("kill", signal.SIGKILL) is not None

    def _sigterm(self) -> bool:
        return self._signal("sigterm", signal.SIGTERM) is not None

    def _pause(self) -> bool:
        # Only during a run: otherwise there is no lease to outlast.
        left = _lease_left(self._conninfo)
        if left is None:
            return False
        self._paused = self._signal("pause", signal.SIGSTOP)
        self._resume_at = time.monotonic() + left + _TAKE_OVER_SECONDS
        return self._paused is not None

    def _signal(self, kind: str, number: signal.Signals) -> int | None:
        """Signals one of the workers and returns its pid; None when there is no worker."""
        workers = self._function.workers()
        if not workers:
            return None
        pid = self._dice.random.choice(workers)
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return None
        self._dice.count(kind)
        self._report(f"{kind}: {number.name} to worker {pid}")
        return pid

    def _resume(self) -> None:
        pid, self._paused = self._paused, None
        if pid is not None and pid in self._function.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            self._report(f"pause: SIGCONT to worker {pid}")

    def _restart_database(self) -> bool:
        assert self._server is not None, "checked at the start"
        self._server.restart()
        self._dice.count("database restart")
        self._report("database restart: SIGQUIT to PostgreSQL, and started again")
        return True


def possible(faults: Faults, server: EmbeddedPostgres | None) -> Faults:
    """The faults that are possible on this machine and with this database."""
    if sys.platform == "win32":
        faults = faults._replace(kill_every=0.0, pause_every=0.0, sigterm_every=0.0)
    return faults if server is not None and server.owned else faults._replace(db_restart_every=0.0)


def check(faults: Faults, server: EmbeddedPostgres | None) -> None:
    """Raises EmulatorError for a fault that is impossible on this machine or with this database."""
    if faults.hurt_processes and sys.platform == "win32":
        raise EmulatorError("Windows has no signals: leave out --kill-every, --pause-every and --sigterm-every")
    if faults.db_restart_every and (server is None or not server.owned):
        raise EmulatorError("--db-restart-every works only with an embedded PostgreSQL that this emulator started")


def _lease_left(conninfo: str) -> float | None:
    """The seconds until the last lease of a run in progress expires; None without a run or a database."""
    query = load_queries(Path(__file__).with_suffix(".sql"))["lease_left"]
    with contextlib.suppress(psycopg.Error), psycopg.connect(conninfo, connect_timeout=5) as conn:
        row = conn.execute(query.encode()).fetchone()
        return None if row is None else row[0]
    return None
