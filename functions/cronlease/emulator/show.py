"""What a person reads in the terminal: a line per hit, and the rows in the database as small tables."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import psycopg

from cronlease.emulator.scheduler import Hit

_COUNTS = ("fetched", "inserted", "updated", "unchanged", "closed")
_MOMENTS = {"locked": ("until", "locked_until"), "not_due": ("due at", "next_run_at")}
_TITLES = ("refresh_status", "opening_signals by source", "opening_signals, the latest")
_WIDEST = 32


def hit_line(hit: Hit) -> str:
    """When it was sent, HTTP status, what came of it, how long it took, and the details."""
    kind, word, details = _story(hit)
    sent, status = f"{hit.sent_at.astimezone():%H:%M:%S}", hit.status or "---"
    return f"{sent}  #{hit.number:<3} {status}  {kind:<7}  {word:<9} {hit.seconds:7.3f} s  {details}".rstrip()


def _story(hit: Hit) -> tuple[str, str, str]:
    body, reason = hit.body, str(hit.body.get("reason"))
    if hit.error is not None:
        return "no", "answer", hit.error
    if body.get("skipped"):
        word, key = _MOMENTS.get(reason, ("", ""))
        moment = body.get(key)
        return "skipped", reason, f"{word} {_clock(datetime.fromisoformat(moment))}" if moment else ""
    if body.get("ok"):
        counts = (f"{name} {body[name]}" for name in _COUNTS if body.get(name) is not None)
        return "ok", str(body.get("status")), ", ".join(counts)
    return "not ok", reason, str(body.get("error", ""))


def rows_in_the_database(conninfo: str) -> str:
    """refresh_status, and the openings: counts and the latest few."""
    queries = Path(__file__).with_name("show.sql").read_text(encoding="utf-8").split(";\n")
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
