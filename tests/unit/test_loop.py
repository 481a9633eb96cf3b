"""How long the resident loop waits, as a rule without a clock."""

import random
from datetime import timedelta
from uuid import UUID

import pytest

from cronlease.outcome import Outcome, SkipReason, Status
from cronlease.triggers.dispatch import Dispatched
from cronlease.triggers.worker import Pace

PAUSE = timedelta(seconds=1)
RAN = Dispatched(Outcome("tick", UUID(int=1), status=Status.SUCCESS))
UNREADABLE = Dispatched(Outcome("run-due", UUID(int=1), skipped=SkipReason.SCHEDULE_READ_ERROR))


class Fixed(random.Random):
    """Draws what it is told."""

    def __init__(self, drawn: float) -> None:
        super().__init__()
        self._drawn = drawn

    def random(self) -> float:
        return self._drawn


def wait(dispatched: Dispatched | None, *, drawn: float = 0, troubles: int = 0) -> float:
    seconds, _ = Pace(PAUSE, troubles).after(dispatched, Fixed(drawn))
    return seconds


@pytest.mark.parametrize(
    ("due_in", "seconds"),
    [
        (timedelta(seconds=8), 8),
        (timedelta(minutes=5), 10),
        (None, 10),
        # Somebody else is claiming all there is: asked again soon, but not without pause.
        (timedelta(0), 0.1),
    ],
)
def test_it_sleeps_until_the_next_row_is_due_but_never_long(due_in: timedelta | None, seconds: float) -> None:
    assert wait(Dispatched(None, due_in)) == seconds


def test_the_longest_sleep_differs_by_up_to_a_tenth() -> None:
    assert wait(Dispatched(None), drawn=0.5) == pytest.approx(10.5)
    assert wait(Dispatched(None), drawn=1) == pytest.approx(11)
    assert wait(Dispatched(None, timedelta(seconds=8)), drawn=1) == 8


def test_between_two_runs_is_the_pause_however_long_the_last_one_took() -> None:
    assert wait(RAN) == 1


@pytest.mark.parametrize("trouble", [UNREADABLE, None], ids=["unreadable", "raised"])
def test_trouble_is_waited_out_longer_each_time_and_forgotten_after_a_success(trouble: Dispatched | None) -> None:
    pace, waits = Pace(PAUSE), []
    for _ in range(8):
        seconds, pace = pace.after(trouble, Fixed(0))
        waits.append(seconds)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    for fine in (Dispatched(None), RAN):
        _, calm = pace.after(fine, Fixed(0))
        assert calm == Pace(PAUSE)
    assert wait(trouble, troubles=100_000) == 60
