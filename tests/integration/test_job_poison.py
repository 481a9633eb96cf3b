"""Items that are unusable, odd, or there twice: what can be kept is kept, and all of it is counted."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cronlease.outcome import Status
from opening_signals.feeds.sanitize import BROKEN_TEXT
from opening_signals.job import refresh
from opening_signals.source_result import DUPLICATE
from tests.integration.boards import Feeds, answer, board, counts, feed, job, served, titles
from tests.integration.conftest import Room


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeds]:
    yield from served(tmp_path, monkeypatch)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Any:
    """What the job logged, by action."""
    monkeypatch.setattr(logging.getLogger("cronlease"), "propagate", True)
    caplog.set_level(logging.INFO, "cronlease")

    def by_action(action: str) -> list[dict[str, Any]]:
        lines = [getattr(record, "cronlease_fields", {}) for record in caplog.records]
        return [line for line in lines if line.get("action") == action]

    return by_action


POISON: list[Any] = [
    None,
    [],
    "x",
    {},
    {"id": None, "title": "Baker"},
    {"id": True, "title": "Baker"},
    {"id": "x" * 501, "title": "Baker"},
    {"id": "a\0b", "title": "Baker"},
    {"id": "\ud800", "title": "Baker"},
    {"id": 8, "title": "\udfff"},
]
ODD: list[Any] = [
    {"id": 7, "title": "Ba\0ker"},
    {"id": 8, "title": "Bak\udfffer"},
    {"id": 9, "title": "x" * 1001},
    {"id": 10, "title": "Baker", "first_published": "9999-99-99"},
    {"id": 11, "title": "Baker", "first_published": "0001-01-01"},
    {"id": 12, "title": "Baker", "absolute_url": "javascript:alert(1)"},
    {"id": 13, "title": "Baker", "metadata": json.loads("[" * 200 + "]" * 200)},
    {"id": 14, "title": "Baker", "content": "x" * 1_000_001},
    {"id": 15, "title": "Baker", "location": {"name": ["Leeds"]}},
]


def test_poison_costs_itself_and_every_good_or_odd_opening_is_kept(room: Room, feeds: Feeds, said: Any) -> None:
    good = [job(1000 + number) for number in range(len(POISON))]
    mixed = [item for pair in zip(good, POISON, strict=True) for item in pair]
    feeds.serve(acme=board(*mixed, *ODD))
    outcome = room.enter(refresh)
    kept = len(good) + len(ODD)
    assert (outcome.status, counts(outcome)) == (Status.SUCCESS, (kept, kept, 0, 0, 0))
    assert titles(room).keys() == {f"acme/{item['id']}" for item in (*good, *ODD)}
    assert outcome.hint == f"items left out: acme {len(POISON)} (item: is not an object)"
    (left_out,), (mended,) = said("items_rejected"), said("items_repaired")
    assert left_out["rejected"] == {
        "item: is not an object": 3,
        "external_id: is missing": 2,
        "external_id: is neither a text nor a whole number": 1,
        "external_id: is longer than 500 characters": 1,
        "external_id: holds invalid characters": 2,
        "title: is missing": 1,
    }
    assert mended["repaired"] == {
        BROKEN_TEXT: 2,
        "title: was cut to 1000 characters": 1,
        "posted_at: is not an ISO 8601 time, and was left out": 1,
        "posted_at: is not in the years 1970 to 2100, and was left out": 1,
        "url: is not an http or https address, and was left out": 1,
        "payload: is nested too deep, and was left out": 1,
        "payload: is too large, and was left out": 1,
        "location: is not a text, and was left out": 1,
    }
    assert counts(room.enter(refresh, force=True)) == (kept, 0, 0, kept, 0)


def test_an_answer_in_which_all_was_repaired_is_complete_and_one_with_items_left_out_closes_nothing(
    room: Room, feeds: Feeds
) -> None:
    feeds.serve(acme=board(job(1), job(2), job(3)))
    room.enter(refresh)
    feeds.serve(acme=board(job(1), {"id": 2, "title": " "}))
    assert counts(room.enter(refresh, force=True)) == (1, 0, 0, 1, 0)
    assert room.query("select count(*) from openings where open") == [(3,)]
    feeds.serve(acme=board(job(1), job(2, "Ba\0ker") | {"first_published": "never"}, job(2)))
    assert counts(room.enter(refresh, force=True)) == (2, 0, 0, 2, 1)
    assert room.query("select external_id from openings where open order by 1") == [("1",), ("2",)]


@pytest.mark.parametrize("page", [1, 2, 2000])
def test_an_id_that_comes_again_counts_once_as_the_last_one_has_it_and_is_reported(
    room: Room, feeds: Feeds, said: Any, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr("opening_signals.collect.PAGE", page)
    feeds.kind = "jsonfeed"
    feeds.serve(acme=feed(1, 2, 2, next_url="/second"))
    feeds.answers["second"] = answer(feed(3, 1, 2).replace(b"Baker", b"Cook"))
    outcome = room.enter(refresh)
    assert (counts(outcome), outcome.hint) == ((3, 3, 0, 0, 0), None)
    assert titles(room) == {"acme/1": "Cook", "acme/2": "Cook", "acme/3": "Cook"}
    assert [line["repaired"] for line in said("items_repaired")] == [{DUPLICATE: 3}]
    assert room.query("select items from opening_sources") == [(3,)]
