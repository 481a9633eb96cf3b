"""What is gone is closed only when that is beyond doubt: boards that move, are emptied, or lose most openings."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from cronlease.outcome import Outcome, Status
from opening_signals.job import refresh
from tests.integration.boards import Answer, Feeds, answer, board, counts, feed, job, served, versioned
from tests.integration.conftest import Room


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeds]:
    yield from served(tmp_path, monkeypatch)


def again(room: Room) -> Outcome:
    return room.enter(refresh, force=True)


def open_now(room: Room) -> set[int]:
    return {int(row[0]) for row in room.query("select external_id from openings where open")}


class Moving:
    """A board of a vendor that pages by offset. Before each answer but the first, one change is made, if any is
    left."""

    def __init__(self, kind: str, items: list[int], *changes: Any) -> None:
        self.items = items
        self.answers = 0
        self._kind = kind
        self._changes = list(changes)

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        if self.answers and self._changes:
            self._changes.pop(0)(self.items)
        self.answers += 1
        asked = dict(parse_qsl(urlsplit(handler.path).query))
        start, limit = int(asked.get("skip", asked.get("offset", 0))), int(asked["limit"])
        items = [{"id": str(each), "text": "Baker", "name": "Baker"} for each in self.items[start : start + limit]]
        document = items if self._kind == "lever" else {"totalFound": len(self.items), "content": items}
        answer(json.dumps(document).encode())(handler)


@pytest.mark.parametrize("kind", ["lever", "smartrecruiters"])
def test_an_opening_withdrawn_between_two_pages_is_closed_and_no_other(room: Room, feeds: Feeds, kind: str) -> None:
    feeds.kind = kind
    feeds.serve(acme=Moving(kind, list(range(250))))
    assert counts(room.enter(refresh)) == (250, 250, 0, 0, 0)
    moving = Moving(kind, list(range(250)), lambda items: items.remove(7), lambda items: items.append(250))
    feeds.serve(acme=moving)
    outcome = again(room)
    # The first reading missed one; the second is sure.
    assert (outcome.status, counts(outcome), outcome.hint) == (Status.SUCCESS, (250, 1, 0, 249, 1), None)
    assert open_now(room) == set(range(251)) - {7}


def test_a_board_that_does_not_rest_closes_nothing_and_the_hint_says_so(room: Room, feeds: Feeds) -> None:
    feeds.kind = "lever"
    feeds.serve(acme=Moving("lever", list(range(250))))
    room.enter(refresh)
    feeds.serve(acme=Moving("lever", list(range(250)), *[lambda items: items.pop(0)] * 20))
    outcome = again(room)
    assert (outcome.status, outcome.counts.closed) == (Status.SUCCESS, 0)
    assert outcome.hint == "nothing was closed of acme (its items moved between its pages while it was read)"
    assert open_now(room) == set(range(250))
    assert room.query("select count(*) from opening_staging_pages") == [(0,)]


def test_when_the_second_reading_fails_the_first_one_counts(room: Room, feeds: Feeds) -> None:
    feeds.kind = "lever"
    feeds.serve(acme=Moving("lever", list(range(250))))
    room.enter(refresh)
    moving = Moving("lever", [*range(250), 300], lambda items: items.remove(7))

    def failing(handler: BaseHTTPRequestHandler) -> None:
        (moving if moving.answers < 3 else answer(b"", 404))(handler)

    feeds.serve(acme=failing)
    outcome = again(room)
    assert (outcome.status, outcome.counts.inserted, outcome.counts.closed) == (Status.SUCCESS, 1, 0)
    assert open_now(room) == {*range(250), 300}


def test_a_feed_that_names_its_next_page_is_looked_at_twice_before_it_closes(room: Room, feeds: Feeds) -> None:
    feeds.kind = "jsonfeed"
    feeds.serve(acme=feed(1, 2, next_url="/second"))
    feeds.answers["second"] = answer(feed(3, 4))
    room.enter(refresh)
    assert len(feeds.asked) == 2
    again(room)
    assert len(feeds.asked) == 4
    # As if 1 had been withdrawn between the two: 3 was on neither page.
    pages = iter([feed(1, 2, next_url="/second"), feed(2, 3, next_url="/second")])
    feeds.answers["acme"] = lambda handler: answer(next(pages))(handler)
    feeds.answers["second"] = answer(feed(4))
    outcome = again(room)
    assert (outcome.counts.closed, open_now(room)) == (0, {1, 2, 3, 4})
    assert outcome.hint is not None
    assert "nothing was closed of acme" in outcome.hint
    feeds.answers["acme"] = answer(feed(2, 3, next_url="/second"))
    assert (again(room).counts.closed, open_now(room)) == (1, {2, 3, 4})


def test_a_drop_of_more_than_half_is_closed_when_a_later_run_says_the_same(room: Room, feeds: Feeds) -> None:
    jobs = [job(number) for number in range(20)]
    feeds.serve(acme=versioned(board(*jobs)), globex=board(job(1)))
    room.enter(refresh)
    few = versioned(board(*jobs[:9]), '"2"')
    feeds.serve(acme=few, globex=board(job(1)))
    outcome = again(room)
    assert (outcome.status, outcome.counts.closed) == (Status.PARTIAL, 0)
    assert outcome.error == (
        "no source failed anew. Doubted, and closed when another run gets the same answer:"
        " acme (11 of its 20 openings are gone)"
    )
    feeds.serve(acme=versioned(board(*jobs)), globex=board(job(1)))
    assert again(room).status is Status.SUCCESS
    feeds.serve(acme=few, globex=board(job(1)))
    assert (again(room).status, len(open_now(room))) == (Status.PARTIAL, 20)
    ((since, seen),) = room.query("select doubted_at, last_seen_at from opening_sources where name = 'acme'")
    assert seen < since
    outcome = again(room)
    assert (outcome.status, outcome.counts.closed, len(open_now(room))) == (Status.SUCCESS, 11, 9)
    assert room.query("select doubt, doubted_at from opening_sources where name = 'acme'") == [(None, None)]
    assert room.query("select distinct last_seen_at from closed_openings") == [(seen,)]


def test_half_of_twenty_and_most_of_nineteen_are_closed_immediately(room: Room, feeds: Feeds) -> None:
    jobs = [job(number) for number in range(20)]
    feeds.serve(acme=board(*jobs), globex=board(*jobs[:19]))
    room.enter(refresh)
    feeds.serve(acme=board(*jobs[:10]), globex=board(jobs[0]))
    outcome = again(room)
    assert (outcome.status, outcome.counts.closed) == (Status.SUCCESS, 28)


def smart(*items: int) -> bytes:
    content = [{"id": str(each), "name": "Baker"} for each in items]
    return json.dumps({"totalFound": len(items), "content": content}).encode()


def test_a_company_that_was_emptied_closes_in_the_second_run_and_stays_healthy(room: Room, feeds: Feeds) -> None:
    feeds.kind = "smartrecruiters"
    feeds.serve(acme=smart(), globex=smart(1))
    # One that was never there is still a mistake.
    assert room.enter(refresh).error == (
        "1 of 2 sources failed: acme (it has no items, like a board that does not exist)"
    )
    feeds.serve(globex=smart())
    statuses = [again(room) for _ in range(3)]
    assert [(each.status, each.counts.closed) for each in statuses] == [
        (Status.PARTIAL, 0),
        (Status.SUCCESS, 1),
        (Status.SUCCESS, 0),
    ]
    assert statuses[0].error is not None
    assert "globex (it has no openings any more, and had 1)" in statuses[0].error


def test_a_feed_without_items_is_doubted_and_a_failure_does_not_count_as_the_second_time(
    room: Room, feeds: Feeds
) -> None:
    def rss(*items: int) -> Answer:
        listed = "".join(f"<item><guid>{each}</guid><title>Baker</title></item>" for each in items)
        return answer(f"<rss><channel>{listed}</channel></rss>".encode(), Content_Type="application/rss+xml")

    feeds.kind = "rss"
    feeds.serve(acme=rss(1, 2))
    room.enter(refresh)
    for wrong in (rss(), answer(b"", 404)):
        feeds.serve(acme=wrong)
        again(room)
        room.query("update opening_sources set next_fetch_at = null")
        assert open_now(room) == {1, 2}
    feeds.serve(acme=rss())
    assert again(room).counts.closed == 2
