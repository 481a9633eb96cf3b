"""The verdict so far, for the status page of the emulated function: a file that is rewritten every few seconds."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cronlease.emulator.function import EmulatorError
from cronlease.emulator.verdict import Verdict

_PAUSE_SECONDS = 5.0


class VerdictFile:
    """Calls `judge` on its own thread, so that no hit waits while the database restarts."""

    def __init__(self, path: Path, judge: Callable[[], Verdict]) -> None:
        self._path = path
        self._judge = judge
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._write_until_stopped, name="verdict file", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _write_until_stopped(self) -> None:
        while not self._stopped.wait(_PAUSE_SECONDS):
            # While the database is away the last verdict stays.
            with suppress(EmulatorError, OSError):
                write(self._path, self._judge())


def write(path: Path, verdict: Verdict) -> None:
    """Replaces the file atomically."""
    lines = verdict.lines()[1:]
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"lines": lines, "violations": len(verdict.violations)}), encoding="utf-8")
    new.replace(path)
