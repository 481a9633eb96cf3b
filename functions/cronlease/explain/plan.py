"""What is shown of a schedule's plan: what it was made from, and its next slots in its zone and in UTC."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronlease.cadence import Cadence
from cronlease.explain.format import at, how_to_replace
from cronlease.explain.rows import Schedule

NEXT_SLOT = "Next slot: "
_SHOWN = 5


def cadence_of(row: Schedule) -> Cadence | None:
    """The row's own, else the one its plan was made from; None if none is known yet. Raises ValueError."""
    if row.once:
        return None
    own = Cadence.of_row(row.every, row.cron, row.time_zone)
    return own or (None if row.planned_from is None else Cadence.parse(row.planned_from))


def in_words(row: Schedule) -> str:
    """How often it runs, as the end of a sentence."""
    if row.once:
        return "once"
    if row.cron is not None:
        return f'by the cron "{row.cron}" in {row.time_zone or "UTC"}'
    if row.every is not None:
        return f"every {row.every}"
    if row.planned_from == "hit":
        return "whenever its trigger hits it"
    return "as often as its function or CRONLEASE_EVERY says"


def is_unplanned(row: Schedule) -> bool:
    """It has a cron, whose next slot nobody has computed yet."""
    return row.next_run_at is None and " " in (row.cron or row.planned_from or "")


def is_unreadable(row: Schedule) -> bool:
    try:
        cadence_of(row)
    except ValueError:
        return True
    return False


def _unreadable(row: Schedule, why: ValueError) -> str:
    if row.every is None and row.cron is None:
        return f"Its cadence cannot be read: {why}."
    # What was planned before it was edited still runs.
    what = "be planned again" if row.next_run_at is not None and row.every_is_readable else "run"
    option = "--every 10m..15m" if row.cron is None else '--cron "0 9 * * 1-5"'
    return f"It cannot {what}: {why}; {how_to_replace(row.function_name, option)} fixes it."


def sentences(row: Schedule, now: datetime) -> list[str]:
    """What the plan was made from, and the next slots; nothing for a band, a one-shot or a hit."""
    try:
        cadence = cadence_of(row)
    except ValueError as error:
        return [_unreadable(row, error)]
    made_from = []
    if row.planned_from is not None and not row.once:
        since = f" since {at(row.planned_at)}" if row.planned_at else ""
        before = f", before that from {row.planned_before}" if row.planned_before else ""
        made_from.append(f"Its plan is made from {row.planned_from}{since}{before}.")
    zone = cadence.cron[1] if cadence is not None and cadence.cron else "UTC"
    return made_from + [f"{NEXT_SLOT}{_written(slot, zone)}" for slot in next_slots(row, cadence, now)]


def next_slots(row: Schedule, cadence: Cadence | None, now: datetime) -> list[datetime]:
    """The next five."""
    if cadence is None or not cadence.has_slots:
        return []
    from cronlease.slots import coming

    anchor = row.slot_at or row.next_run_at
    if anchor is None and cadence.beat is not None:
        # A beat begins with its first run.
        return []
    slots = cadence.slots(anchor or now)
    # A slot that has passed without a run is the next one.
    pending = row.slot_at if row.slot_at and row.slot_at <= now and row.slot_at != row.last_success_slot_at else None
    upcoming = coming(slots, max(now, pending or now), _SHOWN)
    return [pending, *upcoming[:-1]] if pending else upcoming


def _written(slot: datetime, zone: str) -> str:
    in_utc = f"{slot.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if zone in ("UTC", "Etc/UTC"):
        return in_utc
    return f"{slot.astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M:%S} {zone}, {in_utc}"
