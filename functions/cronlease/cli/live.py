"""The live view of `cronlease status --watch` on a terminal. With bar.py the only importer of rich."""

import time
from datetime import timedelta

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cronlease.cli.brief import short
from cronlease.cli.format import at, counted
from cronlease.cli.glance import HEADING, SPARE, Glance
from cronlease.cli.rows import Schedule
from cronlease.cli.table import WIDEST, fit, fitted, shown

_STATES = {"dispatching": "green", "stale": "bold red", "paused": "yellow", "completed": "dim"}
_RESULTS = {"success": "green", "partial": "yellow", "failed": "red", "abandoned": "red"}
_REFRESH_PER_SECOND = 4
_MOST_ERRORS = 5
# What the table puts beside its last column.
_EDGE = 2


class View:
    """What is on the screen: the newest answer, counted down by the database's clock even while it is silent."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._glance: Glance | None = None
        self._seen = time.monotonic()
        self._trouble = ""

    def show(self, glance: Glance) -> None:
        self._glance, self._seen, self._trouble = glance, time.monotonic(), ""

    def say(self, trouble: str) -> None:
        self._trouble = trouble

    def render(self) -> Group:
        silent = timedelta(seconds=time.monotonic() - self._seen)
        parts: list[Text | Table] = []
        if self._glance is not None:
            now = self._glance.now + silent
            count = counted(len(self._glance.schedules), "schedule")
            more = ", and there may be more: --limit shows them" if self._glance.is_full else ""
            parts.append(Text(f"{at(now)} by the database's clock, {count}{more}", "bold"))
            parts += _picture(self._glance.cells(now), self._console.width)
        if self._trouble:
            since = f"No answer for {short(silent)}, trying again" if self._glance else "Trying to reach the database"
            parts.append(Text(f"{since}: {shown(self._trouble)}", "bold red"))
        elif self._glance is None:
            parts.append(Text("Asking the database ..."))
        return Group(*parts, Text("Ctrl-C ends it.", "dim"))

    def live(self) -> Live:
        """A block that keeps the view on the terminal; it is drawn in a thread, so that it never stands still."""
        return Live(
            get_renderable=self.render,
            console=self._console,
            screen=True,
            refresh_per_second=_REFRESH_PER_SECOND,
        )


def _picture(found: list[tuple[Schedule, tuple[str, ...]]], width: int) -> list[Text | Table]:
    """The table, and under it what went wrong: an error is too long for a column."""
    columns = _fitting([cells for _, cells in found], width - _EDGE)
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column in table.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    errors = []
    for row, cells in found:
        texts = dict(zip(HEADING, map(shown, cells), strict=True))
        texts["name"] = fitted(texts["name"], columns["name"]).rstrip()
        styles = {"state": _STATES.get(row.state, ""), "last result": _RESULTS.get(row.last_status or "", "")}
        table.add_row(*(Text(texts[column], styles.get(column, "")) for column in columns))
        if texts["error"]:
            line = f"{texts['name']}: {texts['error']}"
            errors.append(Text(line, styles["last result"], no_wrap=True, overflow="ellipsis"))
    return [table, *errors[:_MOST_ERRORS]]


def _fitting(rows: list[tuple[str, ...]], width: int) -> dict[str, int]:
    """The columns for which there is room, and how wide they are."""
    widths = {column[0]: max(map(len, column)) for column in zip(HEADING, *rows, strict=True)}
    del widths["error"]
    widths["name"] = min(widths["name"], WIDEST)
    return fit(widths, width, {"name"}, SPARE)
