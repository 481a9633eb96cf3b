"""The schedules as status shows them, plain and in the live view. The database's time is passed in."""

import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console

from cronlease.cli.live import View
from cronlease.cli.status_rows import HEADING, Overview
from cronlease.explain.rows import Schedule

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)


def schedule(name: str, state: str = "pending", **fields: Any) -> Schedule:
    return Schedule(name, state, fields.pop("due", False), name, **fields)


def overview(*schedules: Schedule, seconds: list[float] | None = None) -> Overview:
    return Overview(NOW, [(each, seconds or []) for each in schedules], {})


def cells(row: Schedule, column: str, now: datetime = NOW, **more: Any) -> str:
    ((_, found),) = overview(row, **more).cells(now)
    return found[HEADING.index(column)]


def test_a_countdown_goes_by_the_given_time() -> None:
    row = schedule("a", next_run_at=NOW + timedelta(minutes=5))
    assert cells(row, "next run") == "in 5m00s"
    assert cells(row, "next run", NOW + timedelta(minutes=4)) == "in 1m00s"
    assert cells(row, "next run", NOW + timedelta(minutes=5)) == "due now"
    assert cells(row, "next run", NOW + timedelta(minutes=7)) == "due for 2m00s"
    assert cells(schedule("a", due=True), "next run") == "due now"
    assert cells(schedule("a"), "next run") == "never"
    assert cells(schedule("a", "paused", next_run_at=NOW), "next run") == ""


def test_a_lease_runs_out_by_the_given_time() -> None:
    row = schedule("a", "dispatching", locked_by="0e1f2a3b-0000", locked_until=NOW + timedelta(minutes=2))
    assert [cells(row, column) for column in ("holder", "lease left", "next run")] == ["0e1f2a3b", "2m00s", "running"]
    assert cells(row, "lease left", NOW + timedelta(minutes=3)) == "ran out"


def test_the_last_result_says_how_long_ago_and_how_often() -> None:
    row = schedule("a", last_status="failed", last_run_at=NOW - timedelta(minutes=3), failures=2, last_error="boom")
    assert cells(row, "last result") == "failed ×2, 3m00s ago"
    assert cells(row, "error") == "boom"
    assert cells(row, "durations", seconds=[1.0, 2.0]) == "▅█ 2.0s"


def test_what_runs_comes_first_and_what_has_completed_last() -> None:
    soon, later = NOW + timedelta(seconds=1), NOW + timedelta(seconds=2)
    found = overview(
        schedule("done", "completed"),
        schedule("later", next_run_at=later),
        schedule("paused", "paused"),
        schedule("soon", next_run_at=soon),
        schedule("never ran", due=True),
        schedule("runs", "dispatching", next_run_at=later),
    )
    names = [row.function_name for row, _ in found.cells(NOW)]
    assert names == ["runs", "never ran", "soon", "later", "paused", "done"]


def drawn(view: View, console: Console) -> str:
    with console.capture() as captured:
        console.print(view.render())
    return captured.get()


def test_the_live_view_keeps_its_last_picture_while_the_database_is_silent() -> None:
    console = Console(file=io.StringIO(), width=120, no_color=True)
    view = View(console)
    assert "Asking the database" in drawn(view, console)
    view.show_trouble("refused")
    assert "Trying to reach the database: refused" in drawn(view, console)
    row = schedule("a\x1b[2J", next_run_at=NOW + timedelta(minutes=5), last_status="failed", last_error="boom \x07")
    view.show(overview(row))
    view.show_trouble("gone")
    said = drawn(view, console)
    assert "in 5m00s" in said or "in 4m59s" in said
    assert "a?[2J: boom ?" in said
    assert "No answer for 0s, trying again: gone" in said
    view.show(overview(row))
    assert "No answer" not in drawn(view, console)
    assert "there may be more" not in drawn(view, console)
    view.show(overview(row)._replace(is_full=True))
    assert "1 schedule, and there may be more: --limit shows them" in drawn(view, console)


def test_a_narrow_terminal_gets_fewer_columns() -> None:
    row = schedule(
        "refresh_opening_signals", "dispatching", locked_by="0e1f2a3b", locked_until=NOW, last_status="failed"
    )
    for width, seen in ((130, {"holder", "durations"}), (70, set[str]())):
        console = Console(file=io.StringIO(), width=width, no_color=True)
        view = View(console)
        view.show(overview(row, seconds=[1.0] * 12))
        assert {title for title in ("holder", "durations") if title in drawn(view, console)} == seen


def test_a_long_name_takes_no_other_column_away() -> None:
    for width, letters in ((80, "n{12,38}"), (130, "n{39}")):
        console = Console(file=io.StringIO(), width=width, no_color=True)
        view = View(console)
        view.show(overview(schedule("n" * 300, "dispatching", last_status="failed", last_error="boom")))
        said = drawn(view, console)
        assert re.search(f"\n{letters}… +dispatching", said), said
        assert re.search(f"\n{letters}…: boom", said), said
