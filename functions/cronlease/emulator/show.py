"""What a person reads in the terminal: a line per hit, and the rows in the database as small tables."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from cronlease.emulator.scheduler import Hit
from cronlease.emulator.verdict import Verdict

_COUNTS = ("fetched", "inserted", "updated", "unchanged", "closed")
_MOMENTS = {"locked": ("until", "locked_until"), "not_due": ("due at", "next_run_at")}
_TITLES = ("refresh_status", "opening_signals by source", "opening_signals, the latest")
_WIDEST = 32


def hit_line(hit: Hit) -> str:
    """When it was sent, HTTP status, what came of it, how long it took, and the details."""
    kind, word, details = _story(hit)
    sent, status = _clock(hit.sent_at), hit.status or "---"
    said = " ".join([*details.split(), *([f"({hit.note})"] if hit.note else [])])
    return f"{sent}  #{hit.number:<3} {status}  {kind:<7}  {word:<9} {hit.seconds:7.3f} s  {said}".rstrip()


class Screen:
    """Where it is all told: lines for a person, or one JSON object a line for a program."""

    def __init__(self, echo: Callable[[str], None], *, as_json: bool = False) -> None:
        self._echo = echo
        self._as_json = as_json

    def text(self, text: str) -> None:
        """For a person alone."""
        if not self._as_json:
            self._echo(text)

    def hit(self, hit: Hit) -> None:
        self._echo(_written({"hit": asdict(hit)}) if self._as_json else hit_line(hit))

    def fault(self, sentence: str) -> None:
        now = datetime.now(UTC)
        self._echo(_written({"fault": sentence, "at": now}) if self._as_json else f"{_clock(now)}  !    {sentence}")

    def verdict(self, verdict: Verdict) -> None:
        self._echo(_written({"verdict": asdict(verdict)}) if self._as_json else "\n".join(verdict.lines()))


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
    """What came of a hit at /run-due."""
    runs = [f"{run.get('function')} {run.get('status')}" for run in [*body["ran"], *body.get("failed", [])]]
    ended = [f"ended: {body['reason']}"] if body.get("reason") else []
    return ", ".join([*runs, *ended]) or "nothing was due"


def rows_in_the_database(conninfo: str, *, openings: bool = True) -> str:
    """refresh_status, and of the shipped job the openings: counts and the latest few."""
    queries = Path(__file__).with_name("show.sql").read_text(encoding="utf-8").split(";\n")
    queries = queries if openings else queries[:1]
    tables = []
    try:
        with psycopg.connect(conninfo, connect_timeout=5) as conn:
            conn.execute("set local statement_timeout = '5s'")
            for title, query in zip(_TITLES, queries, strict=False):
                cursor = conn.execute(query.encode())
                names = [column.name for column in cursor.description or []]
                tables.append(f"{title}\n{table(names, cursor.fetchall())}")
    except psycopg.Error as error:
        return f"the rows cannot be shown: {str(error).strip()}"
    return "\n\n".join(tables)


def table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; a time is shown as the local time of day, null as nothing."""
    cells = [list(names), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    cells.insert(1, ["-" * width for width in widths])
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(f"  {line}".rstrip() for line in (lines if rows else [*lines, "(no rows)"]))


def _cell(value: object) -> str:
    text = _clock(value) if isinstance(value, datetime) else "" if value is None else str(value)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _clock(moment: datetime) -> str:
    return f"{moment.astimezone():%H:%M:%S}"
