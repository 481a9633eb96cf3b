"""The state of each source between two runs, for people and programs. Pure: stored rows in, entries to show out."""

from collections.abc import Iterable, Sequence
from typing import Any

from opening_signals.feeds.model import Source

HEADING = ("name", "kind", "state", "last_ok_at", "items", "failures", "until", "why")
_NEVER_ASKED = {"last_ok_at": None, "items": None, "failures": 0, "until": None, "asked_to_wait": False}


def entries(listed: Sequence[Source], stored: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each source of the file, in its order, and those that are only in the database and have open openings."""
    known = {row["name"]: row for row in stored}
    of_file = [_entry(source.name, source.kind, known.pop(source.name, None)) for source in listed]
    return of_file + [_entry(name, None, row) for name, row in known.items() if row["has_openings"]]


def _entry(name: str, kind: str | None, row: dict[str, Any] | None) -> dict[str, Any]:
    state, why = _state(kind, row)
    kept = _NEVER_ASKED if row is None else {field: row[field] for field in _NEVER_ASKED}
    return {"name": name, "kind": kind, "state": state, **kept, "why": why}


def _state(kind: str | None, row: dict[str, Any] | None) -> tuple[str, str | None]:
    """The state in a word or two, and the reason."""
    if row is None:
        return "new", None
    if kind is None:
        return "not in the file", "cronlease sources forget NAME closes its openings"
    if row["failures"]:
        return ("left alone" if row["until"] else "failing"), row["last_error"]
    if row["doubt"]:
        return "doubted", f"{row['doubt']}: closed when another run gets the same answer"
    return ("ok" if row["last_ok_at"] else "new"), None
