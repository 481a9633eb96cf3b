"""Times and lengths of time in words. Pure: what the time is now, the database says."""

import shlex
from datetime import datetime, timedelta

_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
_EXACT_BELOW = 10


def in_words(length: timedelta) -> str:
    """Such as 12 minutes, 1 hour 20 minutes, 3 days: as exact as a person would say it, and rounded to that."""
    exact = abs(length.total_seconds())
    if exact < 1:
        return "less than a second"
    step = _step(exact)
    seconds = round(exact / step) * step
    place, (unit, size) = next(found for found in enumerate(_UNITS) if seconds >= found[1][1])
    words = counted(seconds // size, unit)
    if seconds % size:
        smaller, its_size = _UNITS[place + 1]
        words += f" {counted(seconds % size // its_size, smaller)}"
    return words


def _step(seconds: float) -> int:
    """The length of the smallest unit that is worth a word."""
    place, size = next((place, size) for place, (_, size) in enumerate(_UNITS) if seconds >= size)
    is_short = seconds < _EXACT_BELOW * size and place + 1 < len(_UNITS)
    return _UNITS[place + 1][1] if is_short else size


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


def beside(status: str | None, error: str | None) -> str:
    """What an error says where its status stands beside it: not the status once more."""
    return (error or "").removeprefix(f"{status}: ")


def resume(name: str) -> str:
    return f"`cronlease schedule resume {shlex.quote(name)}` lets it run again"
