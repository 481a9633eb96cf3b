"""An independent oracle for the slots of a cron around a change of clocks: looks at every minute, and knows nothing
of how the product searches."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

ZONES = [
    "Europe/Berlin",
    "Europe/London",
    "Europe/Dublin",
    "Europe/Lisbon",
    "Europe/Chisinau",
    "Europe/Athens",
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
    "America/Halifax",
    "America/St_Johns",
    "America/Havana",
    "America/Santiago",
    "America/Asuncion",
    "America/Sao_Paulo",
    "America/Mexico_City",
    "America/Nuuk",
    "America/Godthab",
    "America/Port-au-Prince",
    "Atlantic/Azores",
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "Africa/Cairo",
    "Africa/Johannesburg",
    "Asia/Jerusalem",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Amman",
    "Asia/Tehran",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Sydney",
    "Australia/Adelaide",
    "Australia/Lord_Howe",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Easter",
    "Antarctica/Troll",
    "Etc/UTC",
]
MINUTE = timedelta(minutes=1)
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def changes(zone: str, first: int, last: int) -> list[datetime]:
    """The hours of these years, in UTC, within which the zone's offset changes."""
    known, found = ZoneInfo(zone), []
    moment, end = datetime(first, 1, 1, tzinfo=UTC), datetime(last + 1, 1, 1, tzinfo=UTC)
    step = timedelta(hours=12)
    while moment < end:
        if moment.astimezone(known).utcoffset() != (moment + step).astimezone(known).utcoffset():
            found.append(moment)
        moment += step
    return found


def random_cron(source: random.Random) -> str:
    """Any kind of field; days often any, so that something comes near the change."""
    return " ".join(_field(source, *bounds, place) for place, bounds in enumerate(_BOUNDS))


def _field(source: random.Random, low: int, high: int, place: int) -> str:
    if source.random() < (0.2, 0.3, 0.8, 0.95, 0.7)[place]:
        return "*"
    kind = source.randrange(4)
    if kind == 0:
        return f"*/{source.randint(1, max(2, high // 3))}"
    # Where clocks change.
    near = (low, high) if place != 1 else (0, 4)
    start = source.randint(*near)
    if kind == 1:
        return ",".join(map(str, sorted({start, source.randint(low, high), source.randint(*near)})))
    if kind == 2:
        return f"{start}-{source.randint(start, high)}"
    return str(start)


def slots_between(cron: str, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    """Every slot from begin to before end, by the rules of the product's guide."""
    known, fields = ZoneInfo(zone), cron.split()
    wanted = [_values(field, *bounds) for field, bounds in zip(fields, _BOUNDS, strict=True)]
    # A day on each side: a wall time of that day may belong here.
    clock = list(_minutes(begin - timedelta(days=1), end + timedelta(days=1), known))
    if fields[0].startswith("*") or fields[1].startswith("*"):
        found = {utc for utc, wall in clock if _is_day(fields, wanted, wall) and _is_time(wanted, wall)}
    else:
        found = set(_fixed(clock, fields, wanted))
    return sorted(moment for moment in found if begin <= moment < end)


def _fixed(clock: list[tuple[datetime, datetime]], fields: list[str], wanted: list[set[int]]) -> Iterator[datetime]:
    """A time that is left out comes after the jump; one that there are two of comes the first time."""
    seen: set[datetime] = set()
    before: datetime | None = None
    for utc, wall in clock:
        if before is not None and wall > before + MINUTE:
            skipped, left_out = before + MINUTE, False
            while skipped < wall:
                left_out |= _is_day(fields, wanted, skipped) and _is_time(wanted, skipped)
                seen.add(skipped)
                skipped += MINUTE
            if left_out:
                yield utc
        if wall not in seen and _is_day(fields, wanted, wall) and _is_time(wanted, wall):
            yield utc
        seen.add(wall)
        before = wall


def _minutes(begin: datetime, end: datetime, zone: ZoneInfo) -> Iterator[tuple[datetime, datetime]]:
    moment = begin
    while moment < end:
        yield moment, moment.astimezone(zone).replace(tzinfo=None)
        moment += MINUTE


def _is_time(wanted: list[set[int]], wall: datetime) -> bool:
    return wall.minute in wanted[0] and wall.hour in wanted[1]


def _is_day(fields: list[str], wanted: list[set[int]], wall: datetime) -> bool:
    by_date, by_weekday = wall.day in wanted[2], wall.isoweekday() % 7 in wanted[4]
    both = fields[2].startswith("*") or fields[4].startswith("*")
    return wall.month in wanted[3] and ((by_date and by_weekday) if both else (by_date or by_weekday))


def _values(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, _, last = span.partition("-")
        start = low if first == "*" else int(first)
        stop = high if first == "*" else int(last or first)
        found.update(range(start, stop + 1, int(step or 1)))
    return found
