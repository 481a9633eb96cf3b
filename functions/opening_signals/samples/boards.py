"""Openings that come, change and close, in no feed's shape yet.

What a board has depends only on its name, the seed and the seconds since the start.
"""

import random
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

# Fixed, so that a second start shows the same openings and they are recognised as seen before.
_EPOCH = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
_NEW_EVERY = 9.0
_OPEN_FOR = (20.0, 90.0)
_OPEN_AT_START = 8
_TITLES = ("Baker", "Store Manager", "Florist", "Data Engineer", "Shift Supervisor", "Pâtissier", "Electrician")
_CHANGES = ("Senior {}", "{} (part-time)", "{}, evenings", "Lead {}")
_PLACES = ("Leeds, UK", "Lyon, France", "Porto, Portugal", "Malmö, Sweden", "Berlin, Germany", "Remote")
_CODES = {"UK": "GB", "France": "FR", "Portugal": "PT", "Sweden": "SE", "Germany": "DE"}


class Sample(NamedTuple):
    """One opening as its board has it at a moment."""

    number: int
    identity: int
    title: str
    place: str
    posted_at: datetime
    updated_at: datetime

    @property
    def city(self) -> str:
        return self.place.partition(", ")[0]

    @property
    def country_code(self) -> str:
        return _CODES.get(self.place.partition(", ")[2], "")


def samples(board: str, elapsed: float, seed: int = 0) -> list[Sample]:
    """The openings of a board so many seconds after the start, newest last."""
    newest = int(elapsed // _NEW_EVERY)
    oldest = newest - int(_OPEN_FOR[1] // _NEW_EVERY)
    if oldest <= 0:  # those that were there at the start have the numbers up to 0
        oldest = 1 - _OPEN_AT_START
    drawn = (_sample(board, number, elapsed, seed) for number in range(oldest, newest + 1))
    return [sample for sample in drawn if sample is not None]


def _sample(board: str, number: int, elapsed: float, seed: int) -> Sample | None:
    # Its own random source: what one opening does must not depend on which others were asked for.
    draw = random.Random(f"{seed}/{board}/{number}")  # noqa: S311
    appears = max(number, 0) * _NEW_EVERY
    closes = appears + draw.uniform(*_OPEN_FOR)
    changes = draw.uniform(appears, closes)
    if elapsed >= closes:
        return None
    changed = elapsed >= changes
    title, change = draw.choice(_TITLES), draw.choice(_CHANGES)
    identity = 4_000_000 + 1_000 * (_OPEN_AT_START + number) + draw.randrange(1_000)
    return Sample(
        number=_OPEN_AT_START + number,
        identity=identity,
        title=change.format(title) if changed else title,
        place=draw.choice(_PLACES),
        posted_at=_EPOCH + timedelta(seconds=int(appears)),
        updated_at=_EPOCH + timedelta(seconds=int(changes if changed else appears)),
    )
