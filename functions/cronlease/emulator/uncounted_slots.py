"""The verdict's rule about slots: each one is served or counted as missed. Pure: knows nothing of the database."""

from collections.abc import Iterable
from datetime import datetime
from itertools import groupby, pairwise
from typing import NamedTuple

from cronlease.cadence import Cadence
from cronlease.slots import MOST_COUNTED


class SlotRun(NamedTuple):
    """A run that served a slot."""

    function_name: str
    slot: datetime
    missed: int
    committed: bool
    planned_from: str


def uncounted_slots(runs: Iterable[SlotRun]) -> list[str]:
    """One sentence per gap between two served slots where the number of slots without a success is not the number
    that the next slot's runs counted as missed. The runs are in the order of their fences."""
    gaps = []
    for name, of_one in groupby(runs, key=lambda run: run.function_name):
        served = [list(of_slot) for _, of_slot in groupby(of_one, key=lambda run: run.slot)]
        for before, after in pairwise(served):
            last, first = before[-1], after[0]
            if last.planned_from != first.planned_from or first.slot < last.slot:
                continue
            cadence = Cadence.parse(first.planned_from)
            if not cadence.has_slots:
                continue
            slots = cadence.slots(first.slot)
            expected = slots.count(slots.after(last.slot), first.slot) + (not any(run.committed for run in before))
            counted = sum(run.missed for run in after)
            if counted != min(expected, MOST_COUNTED):
                gaps.append(f"{name}, before {first.slot.isoformat()}: {expected} went by, {counted} were counted")
    return gaps
