"""Writes log lines to a file descriptor from a thread of its own: a reader that stands still must not stop the event
loop. Knows nothing of what is in a line."""

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Iterator

# A pipe takes this much in one piece, so that lines of several processes do not mix.
_PIECE = 4096
# Lines that wait for a reader. Beyond that they are dropped, and counted.
_MOST_WAITING = 10_000
_FLUSH_SECONDS = 1.0
_POLL_SECONDS = 0.001


class LineWriter:
    """Lines are written in the order in which they came. The thread starts with the first line, in the process that
    logs it: a server imports us before it forks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._start_anew()
        atexit.register(self.flush)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        self._lines.clear()
        self._thread: threading.Thread | None = None
        self._is_writing = False
        self._there_is_more = threading.Event()

    def write(self, line: str) -> None:
        """Does not wait. The line comes without its end."""
        if len(self._lines) >= _MOST_WAITING:
            self._dropped += 1
            return
        self._lines.append(line)
        if self._thread is None and not self._start():
            self._write_waiting()
        self._there_is_more.set()

    def _start(self) -> bool:
        thread = threading.Thread(target=self._work, name="log writer", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No thread could be started: waiting is better than losing the line.
            return False
        self._thread = thread
        return True

    def flush(self) -> None:
        """Waits until everything is written, but not for long if the reader stands still."""
        deadline = time.monotonic() + _FLUSH_SECONDS
        while (self._lines or self._is_writing) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _work(self) -> None:
        while True:
            self._there_is_more.wait()
            self._there_is_more.clear()
            # Before a line is taken, so that flush() sees it in one of the two places.
            self._is_writing = True
            self._write_waiting()
            self._is_writing = False

    def _write_waiting(self) -> None:
        for piece in self._pieces():
            try:
                while piece:
                    piece = piece[os.write(self._descriptor, piece) :]
            except OSError:
                # Nobody reads any more, and there is nowhere else to say so.
                self._lines.clear()
                return

    def _pieces(self) -> Iterator[bytes]:
        piece = b""
        while self._lines:
            line = (self._lines.popleft() + "\n").encode("utf-8", "backslashreplace")
            if piece and len(piece) + len(line) > _PIECE:
                yield piece
                piece = b""
            piece += line
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            piece += b'{"severity": "WARNING", "message": "%d log lines were dropped: nobody read them"}\n' % dropped
        if piece:
            yield piece
