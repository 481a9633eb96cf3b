"""The function's output: a file that goes with the emulator, unless somebody will want to read it."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The server's own lines: it says that a worker has failed, the line before says why.
_OF_THE_SERVER = re.compile(r"\[[^]]*\] \[\d+\] \[\w+\] ")
_LONGEST = 300


class Log:
    """A file in the temporary directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_kept = False

    def keep(self) -> str:
        """Says where it will be found."""
        self.is_kept = True
        return f"its log is kept: {self.path}"

    def last_line(self) -> str:
        """The last that the function itself said, as a part of a sentence."""
        return last_line(self.path.read_text(encoding="utf-8", errors="replace"))


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if not _OF_THE_SERVER.match(line)]
    return (own or lines or ["it said nothing"])[-1][:_LONGEST]


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
