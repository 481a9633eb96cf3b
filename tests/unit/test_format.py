"""Times and durations as they fit into a narrow column."""

from datetime import timedelta

import pytest

from cronlease.explain.format import short, sparkline, took


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0.4, "0s"),
        (8, "8s"),
        (60, "1m00s"),
        (299.9, "4m59s"),
        (3600, "1h00m"),
        (7501, "2h05m"),
        (86399, "23h59m"),
        (273600, "3d04h"),
        (-90, "1m30s"),
    ],
)
def test_a_length_of_time_is_written_in_two_units_at_most(seconds: float, written: str) -> None:
    assert short(timedelta(seconds=seconds)) == written


@pytest.mark.parametrize(("seconds", "written"), [(0.081, "0.08s"), (3.24, "3.2s"), (299, "4m59s")])
def test_a_duration_is_as_exact_as_it_matters(seconds: float, written: str) -> None:
    assert took(seconds) == written


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([], ""),
        ([3], "▄"),
        ([0, 0], "▄▄"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([10, 10.5, 100], "▂▂█"),
        ([-1, 2], "▁█"),
    ],
)
def test_a_sparkline_has_a_bar_for_each_value(values: list[float], bars: str) -> None:
    assert sparkline(values) == bars
