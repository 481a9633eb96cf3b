"""The verdict so far, for the status page of the emulated function: a file that is rewritten every few seconds."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cronlease.emulator.function import EmulatorError
from cronlease.emulator.verdict import Verdict

_PAUSE_SECONDS = 5.0


@contextmanager
def kept_up_to_date(path: Path, judge: Callable[[], Verdict]) -> Iterator[None]:
    """Until the block ends. Calls `judge` on its own thread, so that no hit waits while the database restarts."""
    ended = threading.Event()

    def write_until_ended() -> None:
        while not ended.wait(_PAUSE_SECONDS):
            # While the database is away the last verdict stays.
            with suppress(EmulatorError, OSError):
                _write(path, judge())

    threading.Thread(target=write_until_ended, name="verdict file", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _write(path: Path, verdict: Verdict) -> None:
    """Replaces the file atomically."""
    lines = verdict.lines()[1:]
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"lines": lines, "violations": len(verdict.violations)}), encoding="utf-8")
    new.replace(path)
