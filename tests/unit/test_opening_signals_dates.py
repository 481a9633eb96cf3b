"""A date is read as its feed writes it, and one that is written otherwise is left out."""

import json
from typing import Any

import pytest

from opening_signals.feeds.model import Source
from tests.feeds import read, source


def own(dates: str) -> Source:
    fields = {"external_id": "id", "title": "title", "posted_at": "at"}
    return source("json", feed={"items": "item", "fields": fields, "dates": dates})


def feed(value: Any) -> bytes:
    return json.dumps([{"id": 1, "title": "Baker", "at": value}]).encode()


@pytest.mark.parametrize(
    ("dates", "value", "posted"),
    [
        ("iso", "2026-11-02T14:00:00-05:00", "2026-11-02T19:00:00+00:00"),
        ("epoch_ms", 1762770000000, "2025-11-10T10:20:00+00:00"),
        ("epoch_ms", 1762770000000.0, "2025-11-10T10:20:00+00:00"),
        ("epoch_ms", "1762770000000", "2025-11-10T10:20:00+00:00"),
        ("epoch_s", 1762770000, "2025-11-10T10:20:00+00:00"),
        ("date", "2026-11-05", "2026-11-05T00:00:00+00:00"),
        ("%Y-%m-%d %H:%M:%S UTC", " 2026-03-03 12:00:00 UTC", "2026-03-03T12:00:00+00:00"),
        ("%d/%m/%Y %z", "03/11/2026 +0100", "2026-11-02T23:00:00+00:00"),
        ("epoch_ms", None, None),
        ("date", " ", None),
    ],
)
def test_a_date_is_read_as_the_feed_writes_it(dates: str, value: Any, posted: str | None) -> None:
    origin = own(dates)
    (opening,) = read(origin, [feed(value)]).openings
    assert (opening.posted_at and opening.posted_at.isoformat()) == posted


@pytest.mark.parametrize(
    ("dates", "value"),
    [
        ("epoch_ms", "yesterday"),
        ("epoch_ms", True),
        ("epoch_ms", 10**30),
        ("epoch_ms", 10**400),
        ("epoch_ms", -(10**13)),
        ("epoch_ms", "9" * 400),
        ("epoch_s", 10**12),
        ("date", "2026-11-05T10:00:00"),
        ("date", 20261105),
        ("%Y-%m-%d %H:%M:%S UTC", "2026-03-03T12:00:00Z"),
        ("%Y", "0001"),
    ],
)
def test_a_date_written_otherwise_is_left_out(dates: str, value: Any) -> None:
    found = read(own(dates), [feed(value)])
    assert [opening.posted_at for opening in found.openings] == [None]
    (reason,) = found.repaired
    assert reason.startswith("posted_at: is ")
