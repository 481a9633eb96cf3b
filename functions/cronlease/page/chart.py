"""Runs as bars: the height shows how long each took, the colour how it ended. Paths for inline SVG, and a text."""

from collections import Counter
from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from cronlease.explain.format import counted, took

# A bar's width, and the width of a bar with its gap.
_BAR, _STEP = 3, 5
_LEAST = 2.0
_WORDS = {
    "success": "succeeded",
    "partial": "were partial",
    "failed": "failed",
    "interrupted": "were interrupted",
    "abandoned": "were abandoned",
    "running": "running",
}

# How long such a run worked is not known.
_UNKNOWN = ("running", "interrupted", "abandoned")

# How a run ended, and how many seconds it took; None if that is not known.
Past = tuple[str, float | None]


class Bars(NamedTuple):
    """A stroked path for each outcome, in a box of the given size, and the text alternative."""

    paths: list[tuple[str, str]]
    width: int
    height: int
    label: str


class Chart(NamedTuple):
    """Bars with a line across for the median and one for the 95th percentile: their values and their heights."""

    bars: Bars
    median: float
    p95: float
    median_at: float
    p95_at: float
    most: float


def bars(runs: Sequence[Past], *, places: int = 40, height: int = 24) -> Bars:
    """Takes the oldest first and puts the newest at the right edge."""
    most = max((seconds for _, seconds in runs if seconds is not None), default=0.0)
    strokes: dict[str, list[str]] = {}
    first = places - len(runs)
    for place, (status, seconds) in enumerate(runs, start=first):
        tall = height if seconds is None else _tall(seconds, most, height)
        strokes.setdefault(status, []).append(f"M{place * _STEP + _BAR / 2:g} {height}V{height - tall:g}")
    paths = [(status, "".join(each)) for status, each in strokes.items()]
    return Bars(paths, places * _STEP - (_STEP - _BAR), height, label(runs))


def chart(runs: Sequence[Past], *, height: int = 120) -> Chart | None:
    """None if it is not known of any run how long it worked."""
    known = sorted(seconds for status, seconds in runs if seconds is not None and status not in _UNKNOWN)
    if not known:
        return None
    drawn = [(status, seconds) for status, seconds in runs if status not in _UNKNOWN and seconds is not None]
    most = known[-1]
    median, p95 = quantile(known, 0.5), quantile(known, 0.95)
    median_at, p95_at = (height - _tall(seconds, most, height) for seconds in (median, p95))
    return Chart(bars(drawn, places=max(len(drawn), 40), height=height), median, p95, median_at, p95_at, most)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def label(runs: Sequence[Past]) -> str:
    """The text alternative."""
    if not runs:
        return "No runs yet"
    counts = Counter(status for status, _ in runs)
    ended = ", ".join(f"{counts[status]} {_WORDS.get(status, status)}" for status in _WORDS if counts[status])
    known = [seconds for _, seconds in runs if seconds is not None]
    times = f"; the last took {took(known[-1])}, the longest {took(max(known))}" if known else ""
    return f"The last {counted(len(runs), 'run')}: {ended}{times}"


def _tall(seconds: float, most: float, height: int) -> float:
    return round(_LEAST + (height - _LEAST) * max(seconds, 0) / most, 1) if most > 0 else _LEAST
