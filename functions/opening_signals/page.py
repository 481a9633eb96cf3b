"""The job's part of the status page, loaded by its entry point: the state of each source."""

from datetime import datetime
from pathlib import Path
from typing import Any

from cronlease.db.queries import load_queries

TITLE = "Sources"
STATEMENT = load_queries(Path(__file__).with_suffix(".sql"))["sources"]
_HEADING = ("Source", "State", "Openings", "Last read", "Asked again", "Error")


def table(document: list[dict[str, Any]]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The heading and a row per source, failing sources first."""
    return _HEADING, [
        (
            row["name"],
            f"failed {row['failures']} times" if row["failures"] > 1 else "failed once" if row["failures"] else "ok",
            row["items"],
            _time(row["last_ok_at"]),
            _time(row["next_fetch_at"]),
            row["last_error"],
        )
        for row in document
    ]


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
