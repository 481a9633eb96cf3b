"""How far something is, on a line at the foot of the terminal that is gone afterwards. With live.py the only importer
of rich; where standard error is no terminal nothing is shown."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cronlease.cli.table import one_line

if TYPE_CHECKING:
    from rich.progress import Progress

# What is over sooner needs no bar, which would only flicker.
_PATIENCE_SECONDS = 0.3


class Bar:
    """Shown a moment after it is asked for, hidden while something else is printed. For any thread."""

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
        """What is being done, and how much of it is; without a whole the bar only shows that it goes on."""
        if self._progress is None:
            return
        for task in self._progress.tasks:
            # Not by its own update: that takes a whole that is done for the end, and stops the clock.
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
                # Hidden just before.
                return
            self._progress.start()
            # Else a process that is killed would leave the terminal without one.
            self._progress.console.show_cursor(True)


@contextmanager
def bar(description: str) -> Iterator[Bar]:
    """One for as long as the block lasts."""
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
        # What goes to standard output must not end up on the other stream.
        redirect_stdout=False,
    )
