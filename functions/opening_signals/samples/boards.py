"""Sample openings that appear, change and close, independent of any feed's format.

The openings of a board depend only on its name and the seconds since the start.
"""

import random
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

# Fixed, so that a second start shows the same openings, which the job has seen before.
_EPOCH = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
_NEW_EVERY = 9.0
_OPEN_FOR = (20.0, 90.0)
_OPEN_AT_START = 8
_TITLES = ("Baker", "Store Manager", "Florist", "Data Engineer", "Shift Supervisor", "Pâtissier", "Electrician")
_CHANGES = ("Senior {}", "{} (part-time)", "{}, evenings", "Lead {}")
_PLACES = ("Leeds, UK", "Lyon, France", "Porto, Portugal", "Malmö, Sweden", "Berlin, Germany", "Remote")


class Sample(NamedTuple):
    """One opening of a board at a moment."""

    identity: int
    title: str
    place: str
    posted_at: datetime
    updated_at: datetime


def samples(board: str, elapsed: float) -> list[Sample]:
    """The openings of a board this many seconds after the start, newest last."""
    newest = int(elapsed // _NEW_EVERY)
    oldest = newest - int(_OPEN_FOR[1] // _NEW_EVERY)
    if oldest <= 0:  # the openings at the start have the numbers up to 0
        oldest = 1 - _OPEN_AT_START
    drawn = (_sample(board, number, elapsed) for number in range(oldest, newest + 1))
    return [sample for sample in drawn if sample is not None]


def _sample(board: str, number: int, elapsed: float) -> Sample | None:
    # Its own random source: an opening must not depend on which others are drawn.
    draw = random.Random(f"0/{board}/{number}")  # noqa: S311
    appears = max(number, 0) * _NEW_EVERY
    closes = appears + draw.uniform(*_OPEN_FOR)
    changes = draw.uniform(appears, closes)
    if elapsed >= closes:
        return None
    changed = elapsed >= changes
    title, change = draw.choice(_TITLES), draw.choice(_CHANGES)
    return Sample(
        identity=4_000_000 + 1_000 * (_OPEN_AT_START + number) + draw.randrange(1_000),
        title=change.format(title) if changed else title,
        place=draw.choice(_PLACES),
        posted_at=_EPOCH + timedelta(seconds=int(appears)),
        updated_at=_EPOCH + timedelta(seconds=int(changes if changed else appears)),
    )
