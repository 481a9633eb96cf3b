"""How long the resident loop waits, as a rule without a clock."""

import random
from datetime import timedelta
from uuid import UUID

import pytest

from cronlease.outcome import Outcome, SkipReason
from cronlease.triggers.dispatch import Taken
from cronlease.triggers.worker import Pace

UNREADABLE = Taken(outcome=Outcome("run-due", UUID(int=1), skipped=SkipReason.SCHEDULE_READ_ERROR))


async def run() -> Outcome:
    raise AssertionError("nobody starts it")


RAN = Taken((run,))


class Fixed(random.Random):
    """Draws what it is told."""

    def __init__(self, drawn: float) -> None:
        super().__init__()
        self._drawn = drawn

    def random(self) -> float:
        return self._drawn


def wait(taken: Taken | None, *, drawn: float = 0, troubles: int = 0) -> float:
    seconds, _ = Pace(troubles).after(taken, Fixed(drawn))
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
    assert wait(Taken(due_in=due_in)) == seconds


def test_the_longest_sleep_differs_by_up_to_a_tenth() -> None:
    assert wait(Taken(), drawn=0.5) == pytest.approx(10.5)
    assert wait(Taken(), drawn=1) == pytest.approx(11)
    assert wait(Taken(due_in=timedelta(seconds=8)), drawn=1) == 8


def test_after_a_look_that_found_something_comes_the_next_one_without_a_pause() -> None:
    assert wait(RAN) == 0


@pytest.mark.parametrize("trouble", [UNREADABLE, None], ids=["unreadable", "raised"])
def test_trouble_is_waited_out_longer_each_time_and_forgotten_after_a_success(trouble: Taken | None) -> None:
    pace, waits = Pace(), []
    for _ in range(8):
        seconds, pace = pace.after(trouble, Fixed(0))
        waits.append(seconds)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    for fine in (Taken(), RAN):
        _, calm = pace.after(fine, Fixed(0))
        assert calm == Pace()
    assert wait(trouble, troubles=100_000) == 60
