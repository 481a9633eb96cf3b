"""One page of the list of all schedules: what read_refresh_page answers, as the template shows it. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from cronlease.explain.format import without_status
from cronlease.explain.rows import with_times
from cronlease.page.chart import bars

# In the order in which they are shown: first whatever needs a person.
HEALTHS = ("breaker_open", "failing", "stale", "late", "running", "ok", "paused", "completed")
_WRONG = HEALTHS[:4]
# Filters that are offered even if no schedule matches.
_USUAL = ("failing", "late", "running", "ok", "paused")
_WORDS = {"breaker_open": "stopped by a breaker", "stale": "whose run never finished"}
# Beyond this many, read_refresh_page does not count.
_MOST_COUNTED = 1000
_LAST_PAGE = 20
_LONGEST_SEARCH = 200


class Asked(NamedTuple):
    """Which of them to show."""

    search: str | None = None
    health: str | None = None
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Asked":
        """Ignores what makes no sense."""
        page, health = query.get("page", ""), query.get("health")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 3 else 1
        search = query.get("search", "").strip()[:_LONGEST_SEARCH] or None
        return cls(search, health if health in HEALTHS else None, max(1, min(number, _LAST_PAGE)))


class Overview(NamedTuple):
    now: datetime
    asked: Asked
    # How many schedules have each health, as text; `all` counts every one.
    counts: dict[str, str]
    # As they are answered, with `bars`, and with why each is paused as its `note`, if somebody gave a reason.
    rows: list[dict[str, Any]]
    has_more: bool
    # Whether the search covered every name.
    is_complete: bool
    is_empty: bool
    # What is wrong, for a heading; empty if nothing is.
    headline: str


def of(document: dict[str, Any], asked: Asked) -> Overview:
    counts = {health: int(document["counts"].get(health, 0)) for health in HEALTHS}
    rows = [_row(row) for row in document["schedules"]]
    total = sum(counts.values())
    shown = {health: _count(count) for health, count in counts.items() if count or health in (*_USUAL, asked.health)}
    return Overview(
        datetime.fromisoformat(document["now"]),
        asked,
        {"all": f"{total}+" if any(count >= _MOST_COUNTED for count in counts.values()) else str(total), **shown},
        rows,
        document["more"] and asked.page < _LAST_PAGE,
        document["complete"],
        total == 0 and asked.search is None,
        headline(counts),
    )


def headline(counts: Mapping[str, int]) -> str:
    """What is wrong, in words; empty if nothing is."""
    wrong = [f"{_count(counts[health])} {_WORDS.get(health, health)}" for health in _WRONG if counts[health]]
    return " and ".join([", ".join(wrong[:-1]), wrong[-1]] if len(wrong) > 1 else wrong)


def _count(count: int) -> str:
    return f"{count}+" if count >= _MOST_COUNTED else str(count)


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **with_times(row),
        "last_error": without_status(row["last_status"], row["last_error"]),
        "bars": bars([(status, seconds) for status, seconds in row["runs"]]),
        "note": row["paused_at"] and row["paused_reason"],
    }
