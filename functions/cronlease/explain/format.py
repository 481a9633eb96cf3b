"""Times, durations and counts as text: in words for a sentence, short for a column. Pure."""

import shlex
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

_BARS = "▁▂▃▄▅▆▇█"
_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
_EXACT_BELOW = 10


def in_words(length: timedelta) -> str:
    """Such as 12 minutes, 1 hour 20 minutes, 3 days: rounded to what a person would say."""
    exact = abs(length.total_seconds())
    if exact < 1:
        return "less than a second"
    step = _step(exact)
    seconds = round(exact / step) * step
    place, (unit, size) = next(item for item in enumerate(_UNITS) if seconds >= item[1][1])
    words = counted(seconds // size, unit)
    if seconds % size:
        smaller, its_size = _UNITS[place + 1]
        words += f" {counted(seconds % size // its_size, smaller)}"
    return words


def _step(seconds: float) -> int:
    """The length of the smallest unit worth mentioning."""
    place, size = next((place, size) for place, (_, size) in enumerate(_UNITS) if seconds >= size)
    is_short = seconds < _EXACT_BELOW * size and place + 1 < len(_UNITS)
    return _UNITS[place + 1][1] if is_short else size


def relative(moment: datetime, now: datetime) -> str:
    """Such as `in 12 minutes` or `3 days ago`."""
    if abs(moment - now) < timedelta(seconds=1):
        return "now"
    return f"in {in_words(moment - now)}" if moment > now else f"{in_words(now - moment)} ago"


def at(moment: datetime) -> str:
    """In the local time zone."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def short(length: timedelta) -> str:
    """Such as 8s, 4m59s, 2h05m, 3d04h: at most two units, the smaller one with two digits."""
    seconds = int(abs(length.total_seconds()))
    for (unit, size), (smaller, its_size) in pairwise(_UNITS):
        if seconds >= size:
            return f"{seconds // size}{unit[0]}{seconds % size // its_size:02}{smaller[0]}"
    return f"{seconds}s"


def took(seconds: float) -> str:
    """As exact as is useful: 0.08s, 3.2s, 4m59s."""
    if seconds < 1:
        return f"{seconds:.2f}s"
    return f"{seconds:.1f}s" if seconds < 60 else short(timedelta(seconds=seconds))


def sparkline(values: Sequence[float]) -> str:
    """A bar per value, scaled from zero to the greatest; if all are equal, the bars have middle height."""
    if not values:
        return ""
    most, least = max(values), min(values)
    if most == least:
        return _BARS[len(_BARS) // 2 - 1] * len(values)
    return "".join(_BARS[round(max(value, 0) / most * (len(_BARS) - 1))] for value in values)


def without_status(status: str | None, error: str | None) -> str:
    """The error without its status, for a place that shows the status beside it."""
    return (error or "").removeprefix(f"{status}: ")


def how_to_replace(name: str, option: str) -> str:
    return f"`cronlease schedule create {shlex.quote(name)} --replace {option} ...`"


def how_to_resume(name: str) -> str:
    return f"`cronlease schedule resume {shlex.quote(name)}` lets it run again"
