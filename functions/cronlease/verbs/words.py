"""Times and lengths of time in words. Pure: what the time is now, the database says."""

from datetime import datetime, timedelta

_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
_EXACT_BELOW = 10


def in_words(length: timedelta) -> str:
    """Such as 12 minutes, 1 hour 20 minutes, 3 days: as exact as a person would say it."""
    seconds = abs(length.total_seconds())
    if seconds < 1:
        return "less than a second"
    place, whole = next((place, int(seconds // size)) for place, (_, size) in enumerate(_UNITS) if seconds >= size)
    unit, size = _UNITS[place]
    words = counted(whole, unit)
    if whole < _EXACT_BELOW and place + 1 < len(_UNITS):
        smaller, its_size = _UNITS[place + 1]
        rest = int(seconds - whole * size) // its_size
        words += f" {counted(rest, smaller)}" if rest else ""
    return words


def relative(moment: datetime, now: datetime) -> str:
    """Such as `in 12 minutes` or `3 days ago`."""
    if abs(moment - now) < timedelta(seconds=1):
        return "now"
    return f"in {in_words(moment - now)}" if moment > now else f"{in_words(now - moment)} ago"


def at(moment: datetime) -> str:
    """In the time zone of whoever reads it."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
