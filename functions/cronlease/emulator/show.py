"""What a person reads in the terminal: a line per hit, and the rows in the database as small tables."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import psycopg

from cronlease.emulator.scheduler import Hit

_COUNTS = ("fetched", "inserted", "updated", "unchanged", "closed")
_TITLES = ("refresh_status", "opening_signals, counted by source", "opening_signals, the latest")


def hit_line(hit: Hit) -> str:
    """Time, HTTP status, what came of it and why, and how long it took."""
    kind, word, details = _story(hit)
    sent = f"{hit.sent_at.astimezone():%H:%M:%S}"
    return f"{sent}  #{hit.number:<4}{hit.status or '---'}  {kind:<8}{word:<14}{details}  [{hit.seconds:.2f} s]"


def _story(hit: Hit) -> tuple[str, str, str]:
    body = hit.body
    if hit.error is not None:
        return "no", "answer", hit.error
    if body.get("skipped"):
        until = {"locked": ("locked_until", "until"), "not_due": ("next_run_at", "due at")}.get(
            str(body.get("reason"))
        )
        when = _clock(body.get(until[0])) if until else ""
        return (
            "skipped",
            str(body.get("reason")),
            f"{until[1]} {when}" if until and when else str(body.get("hint", "")),
        )
    if body.get("ok"):
        counts = ", ".join(f"{name} {body[name]}" for name in _COUNTS if body.get(name) is not None)
        return "ok", str(body.get("status")), counts
    return "not ok", str(body.get("reason") or body.get("status")), str(body.get("error", ""))


def _clock(moment: object) -> str:
    try:
        return f"{datetime.fromisoformat(str(moment)).astimezone():%H:%M:%S}"
    except ValueError:
        return ""


def rows_in_the_database(conninfo: str) -> str:
    """refresh_status, and the openings: counts and the latest few."""
    queries = Path(__file__).with_name("show.sql").read_text(encoding="utf-8").split(";\n")
    zone = datetime.now().astimezone().strftime("%z")
    tables = []
    try:
        with psycopg.connect(conninfo, connect_timeout=5, options="-c statement_timeout=5s") as conn:
            conn.execute("select set_config('timezone', %s, true)", [f"<{zone}>{_posix_offset(zone)}"])
            for title, query in zip(_TITLES, queries, strict=False):
                cursor = conn.execute(query.encode())
                names = [column.name for column in cursor.description or []]
                tables.append(f"{title}\n{table(names, cursor.fetchall())}")
    except psycopg.Error as error:
        return f"the rows cannot be shown: {str(error).strip()}"
    return "\n\n".join(tables)


def table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; None is shown as nothing."""
    cells = [list(names), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    lines = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    lines.insert(1, "  " + "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines) if rows else f"{lines[0]}\n  (no rows)"


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= 32 else f"{text[:31]}…"
