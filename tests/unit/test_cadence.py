import random
import re
from datetime import timedelta
from typing import Any

import pytest

from cronlease.cadence import Backoff, Cadence, Every, duration, written

DRAWS = 10_000


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86400), ("0.5s", 0.5), (" 3s ", 3)]
)
def test_a_duration_is_read_as_written(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "m", "5 m", "-5m", "5M", "5m5s", "1e3s", "9" * 400 + "s", "٥m.", "10m..15m"]
)
def test_a_duration_that_cannot_be_read_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration: write 90s, 5m, 2h or 1d|longer than ten years"):
        duration(text)


@pytest.mark.parametrize("text", ["90s", "5m", "2h", "1d", "0.5s", "36h"])
def test_what_is_written_is_read_back_as_the_same_length(text: str) -> None:
    assert duration(written(duration(text))) == duration(text)


def test_a_band_needs_low_below_high() -> None:
    assert Every.parse("10m..15m") == Every(timedelta(minutes=10), timedelta(minutes=15))
    assert Every.parse("7s").low == Every.parse("7s").high
    with pytest.raises(ValueError, match=r"the wrong way round: write 10m\.\.15m"):
        Every.parse("15m..10m")
    with pytest.raises(ValueError, match=r"a band is written low\.\.high"):
        Every.parse("soon")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("6 hours", "'6 hours' is not a cadence: write a beat such as 6h, or a band such as 10m..15m"),
        ("", "'' is not a cadence"),
        (6, "6 is not a cadence"),
        ("0 9 * * *", 'a cron is written cron="0 9 * * 1-5"'),
        ("0 9 * * * Mars", "'Mars' is not a time zone"),
    ],
)
def test_an_invalid_cadence_is_refused_with_a_sentence(given: Any, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        Cadence.parse(given)


@pytest.mark.parametrize("read", [duration, Every.parse, Cadence.parse, Cadence.of_cron])
def test_a_number_is_no_text(read: Any) -> None:
    with pytest.raises(ValueError, match=r"^5 "):
        read(5)


def test_jitter_stays_in_its_band_and_uses_all_of_it() -> None:
    source = random.Random(20261116)
    band = Every.parse("10m..15m")
    draws = [band.draw(source).total_seconds() for _ in range(DRAWS)]
    assert 600 <= min(draws) < 603
    assert 897 < max(draws) <= 900
    tenths = [sum(600 + 30 * n <= draw < 630 + 30 * n for draw in draws) for n in range(10)]
    assert all(900 < tenth < 1100 for tenth in tenths), tenths


def test_backoff_stays_in_its_band_and_uses_all_of_it() -> None:
    source = random.Random(20261116)
    rule = Backoff(Every.parse("20m..40m"), growth=1, cap=timedelta(hours=6))
    draws = [rule.draw(failures, source).total_seconds() for failures in range(1, DRAWS + 1)]
    assert 1200 <= min(draws) < 1210
    assert 2390 < max(draws) <= 2400


def test_backoff_grows_with_each_failure_up_to_the_cap() -> None:
    rule = Backoff(Every.parse("20m"), growth=2, cap=timedelta(hours=2))
    drawn = [rule.draw(failures, random.Random(1)).total_seconds() / 60 for failures in (1, 2, 3, 4, 5, 100_000)]
    assert drawn == [20, 40, 80, 120, 120, 120]
