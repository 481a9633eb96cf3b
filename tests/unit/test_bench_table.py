"""The table of the benches, and that one broken bench does not hide the others. No speed is measured here."""

import json
import textwrap
from pathlib import Path

import pytest

from tests.bench import bench_dispatch, bench_peers, table
from tests.bench.__main__ import BENCHES, main, measure
from tests.bench.peers import requirement
from tests.bench.side_by_side import Cost, alternate, compare
from tests.bench.table import Result, Row, against, below

WHERE = {"date": "2026-11-18", "cores": 2, "system": "Linux x86_64", "python": "3.13.1", "postgresql": "18.4"}


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (against("skips", 300, "hits/s", "select 1", 200, ">= 1.5"), "yes"),
        (against("skips", 299, "hits/s", "select 1", 200, ">= 1.5"), "no"),
        (against("a start", 90, "ms", "hello", 100, "<= 0.9"), "yes"),
        (against("a start", 91, "ms", "hello", 100, "<= 0.9"), "no"),
        (against("a start", 91, "ms", "hello", 100), ""),
        (against("skips", 300, "hits/s", "a peer that is not there", None, ">= 3"), "not measured"),
        (below("memory", 150, "MB", 150), "yes"),
        (below("memory", 150.1, "MB", 150), "no"),
        (Row("run twice or never", 0, goal="<= 0"), "yes"),
        (Row("run twice or never", 1, goal="<= 0"), "no"),
        (Row("the rest", goal=">= 1", failed=True), "failed"),
    ],
)
def test_a_goal_is_met_or_not(row: Row, met: str) -> None:
    assert row.met == met
    assert row.cells()[-1] == met


def test_a_ratio_that_just_misses_its_goal_is_not_rounded_up_to_it() -> None:
    row = against("first load", 3957, "rows/s", "bare COPY", 10_000, ">= 0.40")
    assert (row.met, row.cells()[3]) == ("no", "0.3957")
    assert against("first load", 4123, "rows/s", "bare COPY", 10_000, ">= 0.40").cells()[3] == "0.41"


def test_the_text_has_a_line_for_each_row_and_the_notes_below() -> None:
    rows = [against("a skip", 12_345.6, "hits/s", "select 1", 8_000, ">= 1.5"), Row("more", note="it could not")]
    head, line, more, empty, note = table.as_text([Result("skip_http", rows)]).splitlines()
    assert " ".join(head.split()) == "bench what is measured ours compared with ratio goal met"
    assert " ".join(line.split()) == "skip_http a skip 12,346 hits/s select 1 8,000 hits/s 1.54 >= 1.5 yes"
    assert more.split() == ["skip_http", "more", "-"]
    assert (empty, note) == ("", "skip_http, more: it could not")


def test_the_markdown_says_when_and_on_what_machine_it_was_measured() -> None:
    row = below("memory", 61.25, "MB", 150)
    lines = table.as_markdown([Result("dispatch", [row])], WHERE).splitlines()
    assert lines[0] == "Measured on 2026-11-18, 2 cores, Linux x86_64, Python 3.13.1, PostgreSQL 18.4."
    assert lines[-1] == "| dispatch | memory | 61.2 MB | a limit of 150 MB | 0.41 | <= 1 | yes |"
    assert {line.count("|") for line in lines[2:]} == {len(table.HEAD) + 1}
    assert "quick" in table.as_markdown([], {**WHERE, "quick": True})


def test_what_is_written_can_be_read_again_and_has_the_verdicts(tmp_path: Path) -> None:
    results = [Result("one", [Row("a", 1.5, "s", "b", 3.0, 0.5, "<= 1", "said")], 2.0), Result("two", [])]
    table.write(tmp_path / "bench.json", results, WHERE)
    assert table.read(tmp_path / "bench.json") == results
    written = json.loads((tmp_path / "bench.json").read_text())
    assert written["benches"][0]["rows"][0]["met"] == "yes"
    assert {name: written[name] for name in WHERE} == WHERE


def test_a_ratio_is_the_median_of_the_rounds_own() -> None:
    # The machine was ten times slower in the second round, for both.
    found = {"ours": [Cost(2.0, 0), Cost(20.0, 0), Cost(2.0, 0)], "base": [Cost(1.0, 0), Cost(10.0, 0), Cost(4.0, 0)]}
    as_time = compare("x", found, "ours", "base", "<= 1")
    assert (as_time.ours, as_time.other, as_time.unit, as_time.ratio) == (2000, 4000, "ms", 2)
    as_rate = compare("x", found, "ours", "base", rate="calls/s")
    assert (as_rate.ours, as_rate.other, as_rate.unit, as_rate.ratio) == (0.5, 0.25, "calls/s", 0.5)


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_variants_come_as_often_before_each_other_as_after(names: str) -> None:
    calls: list[str] = []

    def called(name: str) -> Cost:
        calls.append(name)
        return Cost(1.0, 1.0)

    rounds = 2 * len(names)
    alternate({name: lambda name=name: called(name) for name in names}, rounds)  # type: ignore[misc]
    orders = ["".join(calls[start : start + len(names)]) for start in range(len(names), len(calls), len(names))]
    assert len(orders) == rounds
    assert sum(order.index("a") < order.index("b") for order in orders) == rounds // 2


def test_every_peer_has_its_line_in_the_requirements() -> None:
    for peer in (*bench_dispatch.PEERS, *bench_peers.LIBRARIES):
        assert requirement(peer).startswith(peer)


def test_tools_are_no_benches() -> None:
    assert "skip_http" in BENCHES
    assert not {name for name in BENCHES if "profile" in name or "trace" in name}


BENCH = """
    from tests.bench import command
    from tests.bench.table import Row

    def rows(*, size: int = 1000, fails: bool = {fails}):
        yield Row("a size", size, goal="<= 10")
        if fails:
            raise RuntimeError("the second row could not be measured")

    if __name__ == "__main__":
        command.run(rows, {{"size": 10}})
"""


@pytest.fixture
def benches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Four small benches: one that works, one that fails midway, one that ends by itself, one that never ends."""
    texts = {
        "good": BENCH.format(fails=False),
        "bad": BENCH.format(fails=True),
        "gone": "    raise SystemExit(7)",
        "hung": "    import time\n    time.sleep(60)",
    }
    for name, text in texts.items():
        (tmp_path / f"bench_{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return {name: f"bench_{name}" for name in texts}


def test_a_bench_that_fails_is_a_row_and_the_others_still_run(
    benches: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "bench.json"
    del benches["hung"]
    assert main(["--json", str(written), "--only", "bad", "gone", "good"], benches) == 1
    bad, gone, good = table.read(written)
    assert [row.met for row in bad.rows] == ["no", "failed"]
    assert bad.rows[1].note == "RuntimeError: the second row could not be measured"
    assert [(row.met, row.note) for row in gone.rows] == [("failed", "exit status 7")]
    assert [(row.ours, row.met) for row in good.rows] == [(1000, "no")]
    assert "failed" in capsys.readouterr().out


def test_a_goal_that_is_not_met_is_no_failure(benches: dict[str, str], tmp_path: Path) -> None:
    arguments = ["--json", str(tmp_path / "bench.json"), "--only", "good"]
    assert main(arguments, benches) == 0
    assert main([*arguments, "--quick", "--markdown"], benches) == 0
    (good,) = table.read(tmp_path / "bench.json")
    assert [(row.ours, row.met) for row in good.rows] == [(10, "yes")]


def test_a_bench_that_never_ends_is_stopped(benches: dict[str, str]) -> None:
    result = measure("hung", benches["hung"], limit=1.0)
    assert [(row.met, row.note) for row in result.rows] == [("failed", "it took over 1 seconds")]


def test_the_list_measures_nothing(benches: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"], benches) == 0
    assert capsys.readouterr().out.split() == list(benches)
