"""What goes wrong on purpose with processes: the function's workers are killed, stopped and told to end, the database
crashes. Decides when, from the main thread, which starts and ends processes."""

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

# How long another has, once the lease is out, to take over from a run that is stopped, so that both are alive.
_TAKE_OVER_SECONDS = 1.0
_GRACE_SECONDS = 1.0

Report = Callable[[str], None]


class Chaos:
    """Call `tick` again and again; `end` makes sure that nothing stays stopped."""

    def __init__(
        self,
        faults: Faults,
        dice: Dice,
        function: FunctionProcess,
        server: EmbeddedPostgres | None,
        conninfo: str,
        report: Report,
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
        self._due = {act: now + every * dice.uniform(0.4, 0.8) for act, every in self._wanted.items()}
        self._paused: int | None = None
        self._resume_at = 0.0

    def tick(self) -> None:
        """Does what is due; what cannot be done now is tried again at the next call."""
        if self._paused is not None:
            # Nothing else until then: what takes over from the stopped one must live to do so.
            if time.monotonic() < self._resume_at:
                return
            self._resume()
            self._grant_a_moment()
        for act, every in self._wanted.items():
            if self._paused is None and time.monotonic() >= self._due[act] and act():
                self._due[act] = time.monotonic() + every * self._dice.uniform(0.7, 1.3)
                self._grant_a_moment()

    def _grant_a_moment(self) -> None:
        """One thing after the other: what is hurt all the time gets nothing done that could be wrong."""
        soonest = time.monotonic() + _GRACE_SECONDS
        self._due = {act: max(due, soonest) for act, due in self._due.items()}

    def end(self) -> None:
        self._wanted = {}
        self._resume()

    def _kill(self) -> bool:
        return self._signal("kill", signal.SIGKILL) is not None

    def _sigterm(self) -> bool:
        return self._signal("sigterm", signal.SIGTERM) is not None

    def _pause(self) -> bool:
        # In the midst of a run, or there is no lease to outlast.
        left = _lease_left(self._conninfo)
        if left is None:
            return False
        self._paused = self._signal("pause", signal.SIGSTOP)
        self._resume_at = time.monotonic() + left + _TAKE_OVER_SECONDS
        return self._paused is not None

    def _signal(self, kind: str, number: signal.Signals) -> int | None:
        """Sends it to one of the workers; answers which, None when there is none."""
        workers = self._function.workers()
        if not workers:
            return None
        pid = self._dice.one_of(workers)
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
    """Those of them that this machine and this database can have."""
    if sys.platform == "win32":
        faults = faults._replace(kill_every=0.0, pause_every=0.0, sigterm_every=0.0)
    return faults if server is not None and server.owned else faults._replace(db_restart_every=0.0)


def check(faults: Faults, server: EmbeddedPostgres | None) -> None:
    """Raises the sentence when this machine or this database cannot go wrong that way."""
    if faults.hurt_processes and sys.platform == "win32":
        raise EmulatorError("there are no signals on Windows: leave --kill-every, --pause-every, --sigterm-every out")
    if faults.db_restart_every and (server is None or not server.owned):
        raise EmulatorError("--db-restart-every is only for an embedded PostgreSQL that this emulator has started")


def _lease_left(conninfo: str) -> float | None:
    """The longest that a run in progress may still go without renewing; None when there is none, or no database."""
    query = load_queries(Path(__file__).with_suffix(".sql"))["lease_left"]
    with contextlib.suppress(psycopg.Error), psycopg.connect(conninfo, connect_timeout=5) as conn:
        row = conn.execute(query.encode()).fetchone()
        return None if row is None else row[0]
    return None
