"""What fits into a narrow column: a length of time, and many of them as a row of bars. Pure."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

_BARS = "▁▂▃▄▅▆▇█"
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def short(length: timedelta) -> str:
    """Such as 8s, 4m59s, 2h05m, 3d04h: two units at most, the smaller one always as wide."""
    seconds = int(abs(length.total_seconds()))
    for (unit, size), (smaller, its_size) in pairwise(_UNITS):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // its_size:02}{smaller}"
    return f"{seconds}s"


def took(seconds: float) -> str:
    """As exact as it matters: 0.08s, 3.2s, 4m59s."""
    if seconds < 1:
        return f"{seconds:.2f}s"
    return f"{seconds:.1f}s" if seconds < 60 else short(timedelta(seconds=seconds))


def sparkline(values: Sequence[float]) -> str:
    """A bar per value, from nothing to the greatest of them; equal ones are of middle height."""
    if not values:
        return ""
    most, least = max(values), min(values)
    if most == least:
        return _BARS[len(_BARS) // 2 - 1] * len(values)
    return "".join(_BARS[round(max(value, 0) / most * (len(_BARS) - 1))] for value in values)
