"""The verdict so far, for the status page of the emulated function: a file that is written anew every few seconds."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cronlease.emulator.function import EmulatorError
from cronlease.emulator.verdict import Verdict

_PAUSE_SECONDS = 5.0


class Bulletin:
    """Judges in a thread of its own: a database that is being restarted keeps no hit waiting."""

    def __init__(self, place: Path, judge: Callable[[], Verdict]) -> None:
        self._place = place
        self._judge = judge
        self._over = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._write_until_over, name="bulletin", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _write_until_over(self) -> None:
        while not self._over.wait(_PAUSE_SECONDS):
            # While the database is away the last one stands.
            with suppress(EmulatorError, OSError):
                write(self._place, self._judge())


def write(place: Path, verdict: Verdict) -> None:
    """Replaced as a whole: nobody reads half of it."""
    lines = [line for line in verdict.lines()[1:] if "proves nothing" not in line]
    beside = place.with_suffix(".new")
    beside.write_text(json.dumps({"lines": lines, "violations": len(verdict.violations)}), encoding="utf-8")
    beside.replace(place)
