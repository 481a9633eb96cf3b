"""The function's output: a file that is deleted when the emulator ends, unless it helps to explain a failure."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The server's own lines only say that a worker failed; the function's last line says why.
_SERVER_LINE = re.compile(r"\[[^]]*\] \[\d+\] \[\w+\] ")
_LONGEST = 300


class Log:
    """A file in the temporary directory."""

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
        return (own or lines or ["it printed nothing"])[-1][:_LONGEST]


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
