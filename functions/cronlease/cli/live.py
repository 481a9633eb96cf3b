"""The live view of `cronlease status --watch` on a terminal. Only this module and progress.py import rich."""

import time
from datetime import timedelta

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from cronlease.cli.status_rows import HEADING, SPARE, Overview
from cronlease.cli.table import layout, one_line
from cronlease.explain.format import at, counted, short
from cronlease.explain.rows import Schedule

_STATES = {
    "dispatching": "green",
    "stale": "bold red",
    "breaker_open": "bold red",
    "late": "bold red",
    "paused": "yellow",
    "completed": "dim",
}
_RESULTS = {"success": "green", "partial": "yellow", "failed": "red", "abandoned": "red"}
_REFRESH_PER_SECOND = 4
_MOST_ERRORS = 5


class View:
    """The newest answer. Its countdowns go on by the database's clock even while the database does not answer."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._overview: Overview | None = None
        self._answered_at = time.monotonic()
        self._trouble = ""

    def show(self, overview: Overview) -> None:
        self._overview, self._answered_at, self._trouble = overview, time.monotonic(), ""

    def show_trouble(self, trouble: str) -> None:
        self._trouble = trouble

    def render(self) -> Group:
        silence = timedelta(seconds=time.monotonic() - self._answered_at)
        parts: list[Text] = []
        if self._overview is not None:
            now = self._overview.now + silence
            count = counted(len(self._overview.schedules), "schedule")
            more = ", and there may be more: --limit shows them" if self._overview.is_full else ""
            parts.append(Text(f"{at(now)} by the database's clock, {count}{more}\n", "bold"))
            parts += _table(self._overview.cells(now), self._console.width)
        if self._trouble:
            since = (
                f"No answer for {short(silence)}, trying again" if self._overview else "Trying to reach the database"
            )
            parts.append(Text(f"{since}: {one_line(self._trouble)}", "bold red"))
        elif self._overview is None:
            parts.append(Text("Asking the database ..."))
        return Group(*parts, Text("Ctrl-C ends it.", "dim"))

    def live(self) -> Live:
        """Keeps the view on the terminal while the block lasts. A thread draws it, so the countdown never stops."""
        return Live(
            get_renderable=self.render,
            console=self._console,
            screen=True,
            refresh_per_second=_REFRESH_PER_SECOND,
        )


def _table(rows: list[tuple[Schedule, tuple[str, ...]]], width: int) -> list[Text]:
    """The table, and the errors under it: they are too long for a column."""
    head, rule, *body = layout(HEADING[:-1], [cells[:-1] for _, cells in rows], width, cut={"name"}, spare=SPARE)
    texts = [Text("  ".join(head.values()), "bold"), Text("  ".join(rule.values()))]
    errors = []
    for (row, cells), fitted in zip(rows, body, strict=True):
        result = _RESULTS.get(row.last_status or "", "")
        styles = {"state": _STATES.get(row.state, ""), "last result": result}
        texts.append(Text("  ").join(Text(cell, styles.get(title, "")) for title, cell in fitted.items()))
        if cells[-1]:
            errors.append(Text(f"{fitted['name'].rstrip()}: {one_line(cells[-1])}", result))
    texts.append(Text())
    for text in [*texts, *errors]:
        text.no_wrap, text.overflow = True, "ellipsis"
    return [*texts, *errors[:_MOST_ERRORS]]
