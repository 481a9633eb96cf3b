"""A progress bar on the terminal's last line, gone afterwards. Nothing is shown where standard error is not a
terminal. Only this module and live.py import rich."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cronlease.cli.table import one_line

if TYPE_CHECKING:
    from rich.progress import Progress

# A bar for anything shorter would only flicker.
_PATIENCE_SECONDS = 0.3


class Bar:
    """Appears a moment after `show`, and is hidden while something else is printed. Any thread may use it."""

    def __init__(self) -> None:
        self._progress = _progress() if sys.stderr.isatty() else None
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def show(self, description: str) -> None:
        if self._progress is None:
            return
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._progress.add_task(one_line(description), total=None, count="")
        self._timer = threading.Timer(_PATIENCE_SECONDS, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def tell(self, description: str, done: int = 0, of: int = 0) -> None:
        """Updates what is being done and how far it is; without `of` the bar only shows that work goes on."""
        if self._progress is None:
            return
        for task in self._progress.tasks:
            # Not through update(), which takes a full bar for the end and stops the clock.
            task.description, task.completed, task.total = one_line(description), done, of or None
            task.fields["count"] = f"{done} of {of}" if of else ""

    def hide(self) -> None:
        if self._progress is None:
            return
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            self._progress.stop()

    def _appear(self) -> None:
        with self._lock:
            if self._timer is None or self._progress is None:
                # hide() was faster.
                return
            self._progress.start()
            # A process that is killed would otherwise leave the terminal without a cursor.
            self._progress.console.show_cursor(True)


@contextmanager
def bar(description: str) -> Iterator[Bar]:
    """Shown until the block ends."""
    made = Bar()
    made.show(description)
    try:
        yield made
    finally:
        made.hide()


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[count]}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=4,
        # rich would send standard output to standard error.
        redirect_stdout=False,
    )
