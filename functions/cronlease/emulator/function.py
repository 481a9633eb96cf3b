"""The function as a child process, under the real functions-framework. Knows nothing of its callers."""

import http.client
import os
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from cronlease.embedded import child
from cronlease.embedded.filelock import FileLock
from cronlease.emulator.stopping import Stopping

_HOST = "127.0.0.1"
# The server's own lines only say that a worker failed; the function's last line says why.
_SERVER_LINE = re.compile(r"\[[^]]*\] \[\d+\] \[\w+\] ")
_LONGEST_LINE = 300
# Longer than a run against the sample feeds, shorter than a person's patience.
_DRAIN_SECONDS = 10.0


class EmulatorError(Exception):
    """The emulation cannot go on; the message is one sentence that says why."""


class FunctionEnded(EmulatorError):
    """The process of the function ended by itself."""

    def __init__(self, sentence: str, log_is_kept: str) -> None:
        super().__init__(f"{sentence}; {log_is_kept}")
        self.sentence = sentence
        self.log_is_kept = log_is_kept


class Log:
    """The function's output: a file that is deleted when the emulator ends, unless it helps to explain a failure."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_kept = False

    def keep(self) -> str:
        """Returns the sentence that says where the log is."""
        self.is_kept = True
        return f"its log is kept: {self.path}"

    def last_line(self) -> str:
        """The function's own last line, fit for a sentence."""
        text = self.path.read_text(encoding="utf-8", errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        own = [line for line in lines if not _SERVER_LINE.match(line)]
        return (own or lines or ["it printed nothing"])[-1][:_LONGEST_LINE]


@contextmanager
def log_file() -> Iterator[Log]:
    descriptor, name = tempfile.mkstemp(prefix="cronlease-", suffix=".log")
    os.close(descriptor)
    log = Log(Path(name))
    try:
        yield log
    finally:
        if not log.is_kept:
            log.path.unlink(missing_ok=True)


class FunctionProcess:
    """`target` of `source`, served on loopback until the block ends; its output goes to `log`."""

    def __init__(
        self, source: Path, target: str, port: int, env: dict[str, str], log: Log, stopping: Stopping
    ) -> None:
        self.url = f"http://{_HOST}:{port}/"
        self._port = port
        self._log = log
        self._stopping = stopping
        command = [sys.executable, "-m", "functions_framework", "--source", str(source), "--target", target]
        with log.path.open("wb") as output:
            self._process = child.spawn(
                [*command, "--host", _HOST, "--port", str(port)],
                output=output,
                env=env,
                on_parent_death=signal.SIGTERM,  # SIGINT would not let it end its workers in order
            )

    def answers(self) -> bool:
        """Whether it serves HTTP yet; raises FunctionEnded when it has ended instead."""
        self.check()
        connection = http.client.HTTPConnection(_HOST, self._port, timeout=5)
        try:
            connection.request("GET", "/health/live")
            connection.getresponse()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return True

    def check(self) -> None:
        status = self._process.poll()
        if status is not None:
            last_line = self._log.last_line()
            raise FunctionEnded(f"the function ended with status {status}: {last_line}", self._log.keep())

    def workers(self) -> list[int]:
        """The server's child processes; none while it restarts one."""
        return child.children(self._process.pid)

    def stop(self) -> None:
        """Lets the run in progress finish, for as long as a person has patience."""
        self._process.send_signal(signal.SIGTERM)  # does nothing when it has ended
        self._stopping.wait_for(self._process, _DRAIN_SECONDS, "the function and its run in progress to end")
        if self._process.poll() is None:
            child.stop(self._process, [])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@contextmanager
def claimed_port(port: int) -> Iterator[None]:
    """Keeps a second emulator off the port, also before our function listens there."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    path = Path(tempfile.gettempdir()) / f"cronlease-emulate-{user}-{port}.lock"
    in_use = EmulatorError(f"port {port} is in use by another emulator: pass --port N")
    if (lock := FileLock.take(path)) is None:
        raise in_use
    with lock:
        if not lock.is_of(path):
            # Its holder has just deleted it, and a lock on it keeps nobody out.
            raise in_use
        try:
            check_port(port)
            yield
        finally:
            with suppress(OSError):  # Windows deletes no file that is open
                path.unlink()


def check_port(port: int) -> None:
    """Raises EmulatorError when the port is taken."""
    with socket.socket() as probe:
        if sys.platform != "win32":  # ignores a listener that just ended; on Windows it would let two share the port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except PermissionError:
            raise EmulatorError(f"port {port} is not yours to use: pass --port N") from None
        except OSError:
            raise EmulatorError(f"port {port} is in use: pass --port N") from None
