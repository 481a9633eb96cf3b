"""Tables on a terminal: no line is longer than the terminal is wide; elsewhere nothing is left out."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from cronlease.cli.commands import status
from cronlease.cli.main import Toolbox
from cronlease.cli.status_rows import HEADING, Overview
from cronlease.cli.table import lines
from cronlease.explain.rows import Schedule

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)
STARTED = "2026-11-16 08:00:00 UTC"
RUNS = ("started", "name", "status", "trigger", "error")
RUN = (STARTED, "refresh_opening_signals", "abandoned", "scheduler", "the feed did not answer within its time")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 80) -> Terminal:
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout", terminal)
    return terminal


def test_the_widest_texts_are_cut_so_that_a_row_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_terminal(monkeypatch)
    rows = partial(lines, RUNS, [RUN], cut=("name", "error"), spare=("trigger",))
    heading, rule, row = rows()
    assert [len(rule), len(row)] == [80, 80]
    assert heading.split() == list(RUNS)
    assert row.split("  ") == [STARTED, "refresh_openin…", "abandoned", "scheduler", "the feed did no…"]
    monkeypatch.setenv("COLUMNS", "68")
    heading, _, row = rows()
    assert len(row) == 68
    assert "trigger" not in heading
    monkeypatch.setenv("COLUMNS", "20")
    *_, row = rows()
    assert row.startswith(f"{STARTED}  ref…  abandoned")


def test_a_pipe_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    *_, row = lines(RUNS, [RUN], cut=("name", "error"), spare=("trigger",))
    assert row == "  ".join(RUN)
    runs = [RUN, *([("", "n" * 30, "", "", "")] * 600), ("", "n" * 35, "", "", "e" * 99)]
    *_, row = Toolbox().table(RUNS, runs, cut=("name", "error"))
    assert row.split() == ["n" * 35, "e" * 99]


def test_status_leaves_out_its_spare_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    row = Schedule(
        "refresh_opening_signals",
        "dispatching",
        due=False,
        action="",
        locked_by="0e1f2a3b-0000",
        locked_until=NOW + timedelta(minutes=2),
        last_status="failed",
        last_run_at=NOW - timedelta(minutes=3),
        last_error="TimeoutError: the feed did not answer",
    )
    status._print(Overview(NOW, [(row, [1.0] * 12)], {}), False)
    heading, rule, shown = terminal.getvalue().splitlines()
    assert max(len(heading), len(rule), len(shown)) <= 80
    kept = [title for title in HEADING if title in heading]
    assert kept == ["name", "state", "lease left", "next run", "last result", "error"]
    assert "dispatching  2m00s" in shown
    assert "failed 3m00s ago" in shown


def test_an_address_is_shown_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_terminal(monkeypatch)
    url = "https://boards.example/openings/12345"
    rows = partial(Toolbox().table, ("title", "url"), [["t" * 50, url]], cut=("title",), spare=("url",))
    *_, row = rows()
    assert row == f"{'t' * 39}…  {url}"
    monkeypatch.setenv("COLUMNS", "70")
    *_, row = rows()
    assert row == f"{'t' * 30}…  {url}"
    monkeypatch.setenv("COLUMNS", "45")
    *_, row = rows()
    assert row == f"{'t' * 39}…"


def test_a_stream_of_any_length_is_passed_on_as_it_comes() -> None:
    taken = 0

    def rows() -> Iterator[list[str]]:
        nonlocal taken
        for number in range(10_000):
            taken += 1
            yield [str(number), "u" * (number // 100)]

    shown = Toolbox().table(["number", "url"], rows(), cut=())
    next(shown)
    assert taken < 1000
    *_, last = shown
    assert last.split() == ["9999", "u" * 99], "the last column stays whole"
