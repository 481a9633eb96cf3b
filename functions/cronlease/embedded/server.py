"""An embedded PostgreSQL: one server per data directory, a direct child of the process that started it.

A second process with the same directory joins the running server and never stops it; the owner may wait for joined
processes that keep the server. Connections go over loopback with a random password, which is stored in the cluster:
whoever can read the cluster may connect.
"""

import atexit
import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psycopg

from cronlease.embedded import child
from cronlease.embedded.cluster import (
    DATABASE,
    PostmasterFile,
    Reachable,
    create_cluster,
    create_if_missing,
    default_data_dir,
    free_port,
    make_data_dir,
    one_line,
    password_file,
    server_command,
    server_environment,
)
from cronlease.embedded.filelock import FileLock
from cronlease.embedded.install import (
    Account,
    EmbeddedPostgresError,
    program,
    reachable_bin_dir,
    server_account,
    wheel_bin_dir,
)

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "default_data_dir", "wheel_bin_dir"]

_START_SECONDS = 60.0
_POLL_SECONDS = 0.005
_KEPT_POLL_SECONDS = 0.05
_PORT_ATTEMPTS = 5
_LOG_BYTES = 1_000_000


class EmbeddedPostgres(Reachable):
    """A running server. `owned` is False when another process started it: then stop() leaves it alone."""

    def __init__(self, data_dir: Path, bin_dir: Path, account: Account | None, *, fsync: bool) -> None:
        super().__init__(data_dir / "cluster", bin_dir)
        self._data_dir = data_dir
        self._log = data_dir / "postgres.log"
        self._log_start = 0
        self._account = account
        self._fsync = fsync
        self._deadline = time.monotonic() + _START_SECONDS
        self._starter = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._alive: FileLock | None = None
        self._kept: FileLock | None = None
        self.pid = 0

    @classmethod
    def start(cls, data_dir: Path, *, bin_dir: Path | None = None, fsync: bool = True, keep: bool = False) -> Self:
        """Starts the server of this data directory, after creating a missing cluster, or joins the running one.
        `keep` makes a joined server last: its owner's stop_when_free waits for our stop() or the end of this
        process."""
        data_dir = data_dir.absolute()
        try:
            account = server_account(data_dir / "cluster")
            make_data_dir(data_dir, account)
            with FileLock.wait(data_dir / "start.lock", _START_SECONDS):
                programs = reachable_bin_dir(bin_dir or wheel_bin_dir(), account, data_dir)
                server = cls(data_dir, programs, account, fsync=fsync)
                server._start_or_join()
                if keep and not server.owned:
                    server._kept = FileLock.take(data_dir / "kept.lock", shared=True)
        except (OSError, subprocess.SubprocessError, psycopg.Error) as error:
            raise EmbeddedPostgresError(
                f"the embedded PostgreSQL in {data_dir} cannot be used: {str(error).strip()};"
                " set CRONLEASE_DATA_DIR to a directory of yours, or set DATABASE_URL"
            ) from error
        return server

    @property
    def owned(self) -> bool:
        return self._process is not None

    @property
    def running(self) -> bool:
        """Whether the server still runs: a joined one ends with its owner."""
        if self._process is not None:
            return self._process.poll() is None
        free = FileLock.take(self._data_dir / "server.lock")
        if free is None:
            return True
        with free:
            return False

    def create_database(self, dbname: str) -> str:
        """Creates the database if it is missing, and returns its URI."""
        with FileLock.wait(self._data_dir / "start.lock", _START_SECONDS):
            create_if_missing(self.dsn_for("postgres"), dbname)
        return self.dsn_for(dbname)

    def restart(self) -> None:
        """Crashes an owned server and starts it again on the same port."""
        assert self._process is not None, "only its owner restarts it"
        try:
            with FileLock.wait(self._data_dir / "start.lock", _START_SECONDS):
                child.stop(self._process, [] if sys.platform == "win32" else [(signal.SIGQUIT, 10.0)])
                if self._alive is not None:
                    self._alive.close()
                self._deadline = time.monotonic() + _START_SECONDS
                self._start_or_join()
        except OSError as error:
            raise EmbeddedPostgresError(f"the embedded PostgreSQL does not start again: {error}") from error

    def stop_when_free(self, announce: Callable[[], None] = lambda: None, patience: float = 1.0) -> None:
        """Does stop() once nobody keeps the server; calls `announce` after that many seconds of waiting."""
        announce_at = time.monotonic() + patience
        while self.owned:
            # Nobody joins under this lock: a newcomer finds either a server that stays, or none.
            with FileLock.wait(self._data_dir / "start.lock", _START_SECONDS):
                if (free := FileLock.take(self._data_dir / "kept.lock")) is not None:
                    with free:
                        self.stop()
                    return
            if time.monotonic() > announce_at:
                announce()
                announce_at = math.inf
            time.sleep(_KEPT_POLL_SECONDS)
        self.stop()

    def stop(self) -> None:
        """Stops an owned server and waits for its end, or lets go of a kept one. May be called repeatedly."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None
        process = self._process
        if process is None or os.getpid() != self._starter:  # a fork of the owner owns nothing
            return
        atexit.unregister(self.stop)
        if sys.platform == "win32":
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                interrupt = [str(program(self._bin_dir, "pg_ctl")), "kill", "INT", str(process.pid)]
                subprocess.run(interrupt, timeout=10)  # noqa: S603
                process.wait(10)
            child.stop(process, [])
        else:
            child.stop(process, [(signal.SIGINT, 10.0), (signal.SIGQUIT, 5.0)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_or_join(self) -> None:
        if not self._cluster.exists():
            create_cluster(self._cluster, self._bin_dir, self._account, fsync=self._fsync)
        self._password = password_file(self._cluster).read_text(encoding="ascii")
        # The server holds this lock through an inherited descriptor. A free lock means that no server lives here,
        # whatever a stale postmaster.pid says, so we never connect to a port that belongs to another program by now.
        while (alive := FileLock.take(self._data_dir / "server.lock")) is None:
            if self._answers():
                return  # another process got there first
            self._check_deadline()
            time.sleep(_POLL_SECONDS)
        if sys.platform == "win32":
            self._alive = alive  # no descriptor is inherited there: the owner holds the lock for the server
            self._launch([])
        else:
            with alive:
                (self._cluster / "postmaster.pid").unlink(missing_ok=True)
                self._launch([alive.descriptor])

    def _launch(self, keep_open: list[int]) -> None:
        if threading.current_thread() is not threading.main_thread():
            # Linux sends the parent-death signal when the thread that forked ends.
            raise EmbeddedPostgresError("start the embedded PostgreSQL from the main thread")
        atexit.register(self.stop)
        try:
            for attempt in range(1, _PORT_ATTEMPTS + 1):
                # A restarted server keeps its port: its clients know no other.
                port = self.port if attempt == 1 else 0
                self._process = self._spawn(port or free_port(), keep_open)
                if self._wait_until_ready(self._process, last=attempt == _PORT_ATTEMPTS):
                    return
        except BaseException:
            self.stop()
            raise

    def _spawn(self, port: int, keep_open: list[int]) -> subprocess.Popen[bytes]:
        self._log.touch(mode=0o600)
        with self._log.open("ab") as log:
            if log.tell() > _LOG_BYTES:
                log.truncate(0)
            self._log_start = log.tell()
            return child.spawn(
                server_command(self._cluster, self._bin_dir, port, fsync=self._fsync),
                output=log,
                env=server_environment(),
                cwd=self._data_dir,
                account=self._account,
                keep_open=keep_open,
            )

    def _wait_until_ready(self, process: subprocess.Popen[bytes], *, last: bool) -> bool:
        """False when another process took the port first and the next port is worth a try."""
        while not self._answers(process.pid):
            if process.poll() is not None:
                reason = self._log_tail()
                if "Address already in use" in reason and not last:
                    return False
                raise EmbeddedPostgresError(f"the embedded PostgreSQL ended immediately: {reason}")
            self._check_deadline()
            time.sleep(_POLL_SECONDS)
        return True

    def _answers(self, pid: int | None = None) -> bool:
        """Whether the server (the one with this pid, if given) is ready and has our database."""
        file = PostmasterFile.read(self._cluster)
        if file is None or not file.ready or (pid is not None and file.pid != pid):
            return False
        self.pid, self.port = file.pid, file.port
        try:
            create_if_missing(self.dsn_for("postgres"), DATABASE)
        except psycopg.OperationalError:  # it is stopping or has just stopped
            return False
        return True

    def _check_deadline(self) -> None:
        if time.monotonic() > self._deadline:
            raise EmbeddedPostgresError(f"the embedded PostgreSQL does not answer: {self._log_tail()}")

    def _log_tail(self) -> str:
        try:
            return one_line(self._log.read_bytes()[self._log_start :])
        except OSError as error:
            return str(error)
