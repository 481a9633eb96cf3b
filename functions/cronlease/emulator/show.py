"""What the emulator prints: a line per hit, the rows in the database as small tables, and the verdict."""

import json
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import psycopg

from cronlease.db.queries import load_queries
from cronlease.emulator.extensions import Extension, Table
from cronlease.emulator.scheduler import Hit
from cronlease.emulator.verdict import Verdict
from cronlease.observe.redact import printable

_COUNTS = ("fetched", "inserted", "updated", "unchanged", "closed")
_MOMENTS = {"locked": ("until", "locked_until"), "not_due": ("due at", "next_run_at")}
_COLOURS = {"ok": "green", "skipped": "cyan", "not ok": "red", "no": "yellow"}
_HEADING = f"{'time':<8}  {'hit':<4} HTTP {'outcome':<7}  {'why':<13} {'took':>9}  details"
# The column where the details of the verdict begin.
_INDENT = " " * 14

# The command line's table renderer: headings, rows, and the keywords `cut`, `spare` and `indent`.
Tabulate = Callable[..., Iterable[str]]


def hit_line(hit: Hit, width: int | None = None) -> str:
    """Time, HTTP status, outcome, duration and details, cut to the width."""
    kind, word, details = _story(hit)
    sent, status = _clock(hit.sent_at), hit.status or "---"
    text = " ".join([*printable(details).split(), *([f"({hit.note})"] if hit.note else [])])
    before, outcome = f"{sent}  #{hit.number:<3} {status}  ", f"{kind:<7}  {word:<13}"
    after = f" {hit.seconds:7.3f} s  {text}".rstrip()
    if width is not None:
        after = _cut(after, width - len(before) - len(outcome))
    return f"{before}{click.style(outcome, fg=_COLOURS[kind])}{after}"


class Screen:
    """Prints lines for a person, or one JSON object per line for a program."""

    def __init__(
        self,
        echo: Callable[[str], None],
        tabulate: Tabulate,
        width: Callable[[], int | None] = lambda: None,
        *,
        as_json: bool = False,
    ) -> None:
        self._echo = echo
        self._tabulate = tabulate
        self._width = width
        self._as_json = as_json
        self._has_heading = as_json

    def text(self, text: str) -> None:
        """For people only."""
        if not self._as_json:
            self._echo(text)

    def hit(self, hit: Hit) -> None:
        self._head()
        self._echo(_written({"hit": asdict(hit)}) if self._as_json else hit_line(hit, self._width()))

    def fault(self, sentence: str) -> None:
        self._head()
        now = datetime.now(UTC)
        if self._as_json:
            self._echo(_written({"fault": sentence, "at": now}))
        else:
            line = f"{_clock(now)}  !    {sentence}"
            self._echo(click.style(_cut(line, self._width() or len(line)), fg="magenta"))

    def _head(self) -> None:
        if not self._has_heading:
            self._has_heading = True
            self._echo(click.style(_cut(_HEADING, self._width() or len(_HEADING)), bold=True))

    def rows(self, conninfo: str, functions: list[str], extensions: Iterable[Extension]) -> None:
        if not self._as_json:
            self._echo(f"\n{rows_in_the_database(conninfo, self._tabulate, functions, extensions)}\n")
            # The tables separate the heading from the hits that follow.
            self._has_heading = False

    def verdict(self, verdict: Verdict, *, must_prove: bool = False) -> None:
        """`must_prove`: too few runs are a failure, not only a remark."""
        if self._as_json:
            self._echo(_written({"verdict": {**asdict(verdict), "too_few": verdict.too_few}}))
            return
        few = "  this verdict proves nothing: " if must_prove else "  note        "
        for line in [*verdict.lines(), *([f"{few}{verdict.too_few}"] if verdict.too_few else [])]:
            self._echo("\n".join(self._wrapped(line)))

    def _wrapped(self, line: str) -> list[str]:
        """A verdict is wrapped, never cut."""
        width = self._width()
        wrapped = [line] if width is None else textwrap.wrap(line, max(width, 40), subsequent_indent=_INDENT)
        colour = "red" if "proves nothing" in line else None
        if line.startswith("  violations"):
            colour = "green" if line.endswith(" 0") else "red"
        return [click.style(each, fg=colour) for each in wrapped] if colour else wrapped


def _written(document: object) -> str:
    return json.dumps(document, default=lambda moment: moment.isoformat(), ensure_ascii=False)


def _story(hit: Hit) -> tuple[str, str, str]:
    body, reason = hit.body, str(hit.body.get("reason"))
    if hit.error is not None:
        return "no", "answer", hit.error
    if isinstance(body.get("ran"), list):
        return "ok" if body.get("ok") else "not ok", "run_due", _report(body)
    if body.get("skipped"):
        word, key = _MOMENTS.get(reason, ("", ""))
        moment = body.get(key)
        return "skipped", reason, f"{word} {_clock(datetime.fromisoformat(moment))}" if moment else ""
    if body.get("ok"):
        counts = (f"{name} {body[name]}" for name in _COUNTS if body.get(name) is not None)
        return "ok", str(body.get("status")), ", ".join(counts)
    return "not ok", reason, str(body.get("error", ""))


def _report(body: dict[str, Any]) -> str:
    """The runs of a hit at /run-due."""
    runs = [f"{run.get('function')} {run.get('status')}" for run in [*body["ran"], *body.get("failed", [])]]
    ended = [f"ended: {body['reason']}"] if body.get("reason") else []
    return ", ".join([*runs, *ended]) or "nothing was due"


def rows_in_the_database(
    conninfo: str, tabulate: Tabulate, functions: list[str], extensions: Iterable[Extension] = ()
) -> str:
    """The rows of refresh_status, first those of these functions, and of the extensions' tables."""
    schedules = load_queries(Path(__file__).with_suffix(".sql"))["schedules"]
    shown: list[Table] = [("refresh_status", schedules, ("function",), ("failures", "last_run_at", "runs"))]
    shown += [table for each in extensions for table in each.tables()]
    tables = []
    try:
        with psycopg.connect(conninfo, connect_timeout=5) as conn:
            conn.execute("set local statement_timeout = '5s'")
            for title, query, cut, spare in shown:
                cursor = conn.execute(query.encode(), {"functions": functions} if query is schedules else None)
                heading = [column.name for column in cursor.description or []]
                cells = [[_cell(value) for value in row] for row in cursor.fetchall()]
                lines = tabulate(heading, cells, cut=cut, spare=spare, indent="  ")
                tables.append("\n".join([title, *lines, *([] if cells else ["  (no rows)"])]))
    except psycopg.Error as error:
        return f"the rows cannot be shown: {str(error).strip()}"
    return "\n\n".join(tables)


def _cell(value: object) -> str:
    """Times are shown in the local zone, nulls as an empty cell."""
    return _clock(value) if isinstance(value, datetime) else "" if value is None else str(value)


def _clock(moment: datetime) -> str:
    """The time of day, with the date unless that is today."""
    local = moment.astimezone()
    return f"{local:%H:%M:%S}" if local.date() == datetime.now().astimezone().date() else f"{local:%Y-%m-%d %H:%M:%S}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(width, 1) - 1]}…"
