"""Which slot a run serves, what was missed before it, and what comes next. Pure: takes the row, as
the database read it at its own time, as an argument; the caller writes the plan.

A plan goes on from the slot that was served, not from now: however many slots went by, the latest is served once.
"""

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from cronlease.cadence import HIT, Cadence
from cronlease.db.plans import Rules, plan_refresh
from cronlease.db.queries import Query
from cronlease.job import Job

if TYPE_CHECKING:
    from cronlease.slots import Slots

# A cadence that was replaced more recently than this does not take the row back: two revisions share it for a while.
FOLLOWS_FOR = timedelta(hours=1)
# A new plan may begin with a slot that came this recently: the hit that makes the plan may be that slot's.
_RECENT = timedelta(minutes=5)
_ATTEMPTS = 3
_TIMES = ("at", "planned_at", "next_run_at", "slot_at", "last_slot_at", "last_success_slot_at")
_random = random.SystemRandom()


class Row(NamedTuple):
    """A schedule row as the database read it, `at` that moment of its own clock."""

    function_name: str
    action: str
    at: datetime
    once: bool = False
    cron: str | None = None
    time_zone: str | None = None
    every: str | None = None
    missed: str | None = None
    late: timedelta | None = None
    attempts: int | None = None
    attempt: int = 0
    planned_from: str | None = None
    planned_before: str | None = None
    planned_at: datetime | None = None
    next_run_at: datetime | None = None
    slot_at: datetime | None = None
    last_slot_at: datetime | None = None
    last_success_slot_at: datetime | None = None
    saved: Any = None
    abandoned: int = 0

    @classmethod
    def read(cls, details: Mapping[str, Any]) -> "Row":
        """The row in what refresh_plan answers."""
        values = {name: value for name, value in details.items() if value is not None}
        for name in _TIMES:
            if name in values:
                values[name] = datetime.fromisoformat(values[name])
        if "late" in values:
            values["late"] = timedelta(seconds=float(values["late"]))
        return cls(**values)


class Served(NamedTuple):
    """What a run knows of its place in time. The slot is None for a run that serves none: of a band, or forced."""

    slot: datetime | None = None
    since: datetime | None = None
    attempt: int = 1
    missed: int = 0
    first_missed: datetime | None = None
    saved: Any = None


class Plan(NamedTuple):
    """The cadence in force for a row, with its job's rules where the row says nothing."""

    row: Row
    cadence: Cadence
    # The cadence that the caller has, where the row's plan is followed instead of it.
    instead_of: Cadence | None
    attempts: int | None
    late: timedelta | None
    late_alert: timedelta | None = None
    readable: bool = True

    @classmethod
    def of(cls, row: Row, job: Job) -> "Plan":
        """Raises ValueError where the row's cadence cannot be read."""
        own = Cadence.of_row(row.every, row.cron, row.time_zone)
        wanted = own or job.cadence
        cadence, instead_of = wanted, None
        if (
            row.planned_from not in (None, wanted.text)
            and row.planned_before == wanted.text
            and row.planned_at is not None
            and row.planned_at > row.at - FOLLOWS_FOR
            # The row's own cadence belongs to no revision, and no trigger owns it.
            and (own is None or row.planned_from != HIT)
        ):
            followed = stored(row)
            cadence, instead_of = (wanted, None) if followed is None else (followed, wanted)
        late = job.late if row.missed is None else row.late
        return cls(row, cadence, instead_of, row.attempts or job.attempts, late, job.late_alert)

    @classmethod
    def of_claim(cls, row: Row, job: Job) -> "Plan":
        """The same for a row that was due by its stored plan: if its own cadence cannot be read any more, it runs all
        the same, and stays unplanned after that."""
        try:
            return cls.of(row, job)
        except ValueError:
            cadence = stored(row) or job.cadence
            return cls(row, cadence, None, row.attempts or job.attempts, None, job.late_alert, readable=False)

    @property
    def rules(self) -> Rules:
        return Rules(self.cadence.text if self.readable else None, self.attempts, self.late)

    def served(self, *, force: bool = False) -> Served:
        """The slot of a claim that was granted at the row's time, and what was missed."""
        row = self.row
        nothing = Served(attempt=1 if force else max(1, row.attempt), saved=row.saved)
        by = stored(row)
        if by is None or not by.has_slots:
            by = self.cadence if self.cadence.beat is not None else None
        if by is None or force or row.once or (row.slot_at is not None and row.slot_at > row.at + by.early):
            # Somebody made the row due by hand: its slot is still to come.
            return nothing
        slots = by.slots(row.slot_at or row.next_run_at or row.at)
        pending = None if row.slot_at == row.last_success_slot_at else row.slot_at
        come = [moment for moment in (slots.latest(row.at), pending) if moment is not None]
        if not come or (row.last_success_slot_at is not None and max(come) <= row.last_success_slot_at):
            # Version 0.1 drew a time of its own before the next slot.
            return nothing
        slot = max(come)
        # A slot other than the planned one starts counting anew.
        attempt = max(1, row.attempt) if slot == row.slot_at else 1
        missed, first = self._missed(by, slot)
        return Served(slot, row.last_success_slot_at, attempt, missed, first, row.saved)

    def _missed(self, by: Cadence, slot: datetime) -> tuple[int, datetime | None]:
        """How many slots between the last one served and this one had no successful run, and the first of them."""
        row = self.row
        slots, last = by.slots(slot), row.last_slot_at
        start = row.slot_at or row.next_run_at or slot
        if by.cron is not None and row.planned_at is not None:
            # Slots that were passed over since this cadence came into force count, too.
            start = min(start, _first_slot(slots, row.planned_at, last))
        if last is not None and (start <= last or row.planned_at is None or last >= row.planned_at):
            start = slots.after(last)
        count = slots.count(start, slot)
        first = start if count else None
        failed = row.last_slot_at
        if failed is not None and failed not in (slot, row.last_success_slot_at):
            # That slot had its attempts, and none succeeded.
            count, first = count + 1, failed
        return count, first

    def following(self, served: Served) -> datetime | None:
        """The slot after the one served; None for a cadence that has none."""
        row, cadence = self.row, self.cadence
        if not cadence.has_slots or not self.readable:
            return None
        slots = cadence.slots(served.slot or row.slot_at or row.next_run_at or row.at)
        if served.slot is not None and (cadence.beat is not None or cadence.text == row.planned_from):
            return slots.after(served.slot)
        if cadence.beat is not None:
            return slots.after(row.at)
        return _first_slot(slots, row.at, served.slot or row.last_slot_at)

    def late_after(self, slot: datetime | None) -> timedelta | None:
        """How long after that slot its run counts as late, where the row does not say; None leaves it to SQL."""
        return self.late_alert or (self.cadence.late_after(slot) if slot is not None else None)

    def query(self) -> Query[bool] | None:
        """The new plan of a row that was not due and needs one; None where the plan that it has is followed."""
        row, cadence = self.row, self.cadence
        if self.instead_of is not None:
            is_ahead = row.next_run_at is not None and row.next_run_at > row.at
            if is_ahead or cadence.text == HIT:
                return None
        slot = delay = None
        if cadence.band is not None and not row.once:
            delay = cadence.band.draw(_random)
        elif cadence.text != HIT and not row.once:
            slot = self._next_slot()
        text = None if row.once else cadence.text
        return plan_refresh(
            row.function_name,
            row.planned_from,
            row.next_run_at,
            text,
            slot_at=slot,
            delay=delay,
            attempts=self.attempts,
            late_after=self.late_after(slot),
        )

    def _next_slot(self) -> datetime | None:
        """The slot to run next; None for a beat that begins with its first run."""
        row, cadence = self.row, self.cadence
        anchor = row.slot_at or row.next_run_at
        if cadence.beat is not None and anchor is None:
            return None
        slots = cadence.slots(anchor or row.at)
        same = cadence.text == row.planned_from
        is_out = row.slot_at is not None and row.attempt >= (self.attempts or _ATTEMPTS)
        if same and row.slot_at is not None and row.next_run_at is not None:
            slot = slots.after(row.slot_at) if is_out else row.slot_at
        elif cadence.beat is not None:
            slot = slots.after(max(row.last_slot_at or row.at, row.at))
        else:
            slot = _first_slot(slots, row.at, row.last_slot_at)
        if self.late is None or row.at <= slot + self.late:
            return slot
        # Too late for that one, perhaps not for the latest.
        latest = slots.latest(row.at)
        return latest if latest is not None and row.at <= latest + self.late else slots.after(row.at)


def _first_slot(slots: "Slots", at: datetime, last: datetime | None) -> datetime:
    """The first slot of a plan that is made at that moment: one that has just come, unless it was served, or else the
    next one."""
    recent = slots.latest(at)
    if recent is not None and recent > at - _RECENT and (last is None or recent > last):
        return recent
    return slots.after(at)


def stored(row: Row) -> Cadence | None:
    """The cadence that the row's plan was made from; None if there is none, or it cannot be read."""
    try:
        return None if row.planned_from is None else Cadence.parse(row.planned_from)._replace(text=row.planned_from)
    except ValueError:
        return None
