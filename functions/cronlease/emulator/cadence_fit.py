"""Whether a cadence fits how often its function is hit, and what would fit. Pure: takes the time as an argument."""

import itertools
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from cronlease.cadence import HIT, Cadence, written
from cronlease.slots import Coming, coming

_SLOTS = 60
_EARLY = timedelta(seconds=5)
_ACCEPTED = timedelta(hours=1)


class Misfit(NamedTuple):
    problem: str
    fix: str


def misfit(cadence: Cadence, hits: Sequence[Coming], now: datetime, late: timedelta | None = None) -> Misfit | None:
    """None where the cadence fits `hits`, the schedules of everything that hits the function. `late` is how late a
    slot may run."""
    if not hits or cadence.text == HIT:
        return None
    if cadence.cron is not None:
        return _of_cron(cadence, hits, now, late)
    moments = _hit_times(hits, now)
    longest = max(later - earlier for earlier, later in itertools.pairwise(moments))
    if cadence.beat is not None:
        if longest <= cadence.beat:
            return None
        problem = f"its beat is {cadence}, but it is hit only every {written(longest)}: slots in between are missed"
        return Misfit(problem, f'hit it at least every {cadence}, or write every="hit"')
    assert cadence.band is not None, "a cadence is a hit, a cron, a beat or a band"
    low, high = cadence.band
    # A run ends a moment after its hit, so even the shortest delay ends a moment after a hit.
    waits = (low // longest + 1) * longest
    if waits <= high:
        return None
    due = f"a run is due {cadence} after the end of the last, but it is hit every {written(longest)}"
    fix = f"hit it every {written(high - low)}" if high > low else f'write every="{written(low)}", which is a beat'
    return Misfit(f"{due}, so it runs every {written(waits)}", f'{fix}, or write every="hit" to run at each hit')


def _of_cron(cadence: Cadence, hits: Sequence[Coming], now: datetime, late: timedelta | None) -> Misfit | None:
    """Each slot needs a hit soon, and before the next slot."""
    assert cadence.cron is not None, "a cron"
    expression, zone = cadence.cron
    fix = f'hit it by the same schedule, "{expression}" in {zone}, or write every="hit"'
    latest = timedelta(0)
    for slot, following in itertools.pairwise(coming(cadence.slots(now), now, _SLOTS)):
        hit = min(each.after(slot - _EARLY) for each in hits)
        if hit >= following - _EARLY:
            missed = f"its slot at {slot:%Y-%m-%d %H:%M} UTC gets no hit before the next one, and is missed"
            return Misfit(f"{missed} by the hit at {hit:%H:%M}", fix)
        if late is not None and hit - slot > late:
            skipped = f"its slot at {slot:%Y-%m-%d %H:%M} UTC is hit {written(hit - slot)} late, and is skipped"
            return Misfit(f'{skipped}: with missed="skip" it may be {written(late)} late', fix)
        latest = max(latest, hit - slot)
    if latest <= _ACCEPTED:
        return None
    return Misfit(f"its slots are hit up to {written(latest)} late", fix)


def _hit_times(hits: Sequence[Coming], now: datetime) -> list[datetime]:
    moments = [now]
    while len(moments) <= _SLOTS:
        moments.append(min(each.after(moments[-1]) for each in hits))
    return moments[1:]
