"""The verdict's rule about slots: each one is served or counted."""

from datetime import UTC, datetime, timedelta

import pytest

from cronlease.emulator.uncounted_slots import SlotRun, uncounted_slots

NINE = datetime(2026, 3, 28, 8, tzinfo=UTC)
DAILY = "0 9 * * * Europe/Berlin"


def run(days: int, missed: int = 0, *, committed: bool = True, planned_from: str = DAILY) -> SlotRun:
    # An hour earlier in UTC from the change of clocks on.
    summer = timedelta(hours=1) if days >= 1 else timedelta(0)
    return SlotRun("job", NINE + timedelta(days=days) - summer, missed, committed, planned_from)


@pytest.mark.parametrize(
    "runs",
    [
        [run(0), run(1), run(2)],
        [run(0), run(4, missed=3)],
        [run(0), run(1, committed=False), run(1), run(2)],
        [run(0), run(1, committed=False), run(2, missed=1)],
        [run(0), run(1, committed=False), run(3, missed=2, committed=False), run(3)],
        [run(0), run(9, planned_from="6h")],
    ],
)
def test_what_is_served_or_counted_is_in_order(runs: list[SlotRun]) -> None:
    assert uncounted_slots(runs) == []


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([run(0), run(2)], "1 went by, 0 were counted"),
        ([run(0), run(4, missed=2)], "3 went by, 2 were counted"),
        ([run(0), run(1, missed=1)], "0 went by, 1 were counted"),
        ([run(0), run(1, committed=False), run(2)], "1 went by, 0 were counted"),
    ],
)
def test_what_is_left_out_or_counted_twice_is_reported(runs: list[SlotRun], said: str) -> None:
    (found,) = uncounted_slots(runs)
    assert found.endswith(said)
