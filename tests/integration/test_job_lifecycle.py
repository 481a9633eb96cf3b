"""From run to run: openings that come, change, close and return, and what is remembered of their sources."""

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from cronlease.outcome import Outcome, Status
from opening_signals import limiter
from opening_signals.job import refresh
from opening_signals.store import upsert
from tests.integration.boards import Feeds, answer, board, counts, feed, job, served, versioned
from tests.integration.conftest import Room


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeds]:
    yield from served(tmp_path, monkeypatch)


def again(room: Room) -> Outcome:
    return room.enter(refresh, force=True)


def open_now(room: Room) -> list[str]:
    return [row[0] for row in room.query("select external_id from openings where open order by external_id")]


def remembered(room: Room, columns: str, name: str = "acme") -> Any:
    (row,) = room.query(f"select {columns} from opening_sources where name = '{name}'")
    return row if len(row) > 1 else row[0]


def no_longer_waiting(room: Room) -> None:
    room.query("update opening_sources set next_fetch_at = now() - interval '1 s' where next_fetch_at is not null")


def test_an_opening_comes_changes_closes_and_returns(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=board(job(1), job(2)))
    assert counts(room.enter(refresh)) == (2, 2, 0, 0, 0)
    feeds.serve(acme=board(job(1), job(2, "Head Baker")))
    assert counts(again(room)) == (2, 0, 1, 1, 0)
    feeds.serve(acme=board(job(1)))
    outcome = again(room)
    assert (outcome.status, counts(outcome)) == (Status.SUCCESS, (1, 0, 0, 1, 1))
    assert room.query("select external_id, title, closed_at > changed_at from closed_openings") == [
        ("2", "Head Baker", True)
    ]
    assert (open_now(room), counts(again(room))) == (["1"], (1, 0, 0, 1, 0))
    feeds.serve(acme=board(job(1), job(2, "Head Baker")))
    assert counts(again(room)) == (2, 0, 1, 1, 0)
    assert room.query("select external_id from new_openings order by 1") == [("1",), ("2",)]
    assert room.query("select * from closed_openings") == []


def test_a_board_that_says_twice_that_it_is_empty_closes_all_of_its_own_and_nothing_else(
    room: Room, feeds: Feeds
) -> None:
    feeds.serve(acme=board(job(1), job(2)), globex=board(job(3)))
    room.enter(refresh)
    feeds.serve(acme=board(), globex=board(job(3)))
    outcome = again(room)
    assert (outcome.status, counts(outcome)) == (Status.PARTIAL, (1, 0, 0, 1, 0))
    outcome = again(room)
    assert (outcome.status, counts(outcome)) == (Status.SUCCESS, (1, 0, 0, 1, 2))
    assert open_now(room) == ["3"]


def test_last_seen_at_is_true_for_the_unchanged_and_for_the_closed(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=board(job(1), job(2)))
    room.enter(refresh)
    ((first,),) = room.query("select distinct last_seen_at from openings")
    again(room)
    ((second,),) = room.query("select distinct last_seen_at from openings")
    feeds.serve(acme=board(job(1)))
    again(room)
    ((third,),) = room.query("select last_seen_at from openings where open")
    ((gone, closed_at),) = room.query("select last_seen_at, closed_at from closed_openings")
    assert first < second == gone < closed_at == third
    feeds.serve(acme=answer(b"", 404))
    again(room)
    assert room.query("select last_seen_at from openings order by external_id") == [(third,), (second,)]


def test_an_unchanged_feed_costs_one_304_and_no_staging(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds.serve(acme=versioned(board(job(1))), globex=board(job(2)))
    room.enter(refresh)
    seen_at = remembered(room, "last_seen_at")
    staged = []
    real = upsert.Staging.add

    async def add(staging: upsert.Staging, *page: Any) -> None:
        staged.append(staging._source)
        await real(staging, *page)

    monkeypatch.setattr(upsert.Staging, "add", add)
    outcome = again(room)
    assert (outcome.status, counts(outcome)) == (Status.SUCCESS, (1, 0, 0, 1, 0))
    assert (staged, open_now(room)) == (["globex"], ["1", "2"])
    assert remembered(room, "etag, items, failures") == ('"1"', 1, 0)
    assert remembered(room, "last_seen_at") > seen_at
    feeds.serve(acme=versioned(board(job(3)), '"2"'), globex=board(job(2)))
    assert counts(again(room)) == (2, 1, 0, 1, 1)


def test_when_nothing_is_new_anywhere_the_run_is_a_success(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=versioned(board(job(1))))
    room.enter(refresh)
    outcome = again(room)
    assert (outcome.status, counts(outcome), open_now(room)) == (Status.SUCCESS, (0, 0, 0, 0, 0), ["1"])


def test_a_source_whose_openings_were_removed_by_hand_is_asked_for_all_of_them(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=versioned(board(job(1))))
    room.enter(refresh)
    room.query("truncate opening_signals")
    assert counts(again(room)) == (1, 1, 0, 0, 0)


def test_what_is_remembered_of_another_address_is_not_used(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=versioned(board(job(1))))
    room.enter(refresh)
    feeds.serve(acme=versioned(board(job(2))))
    feeds.rename_path("acme", "acme?lang=en")
    assert counts(again(room)) == (1, 1, 0, 0, 1)
    assert "if-none-match" not in feeds.asked[-1]


def test_a_failing_source_is_left_alone_for_longer_and_longer(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=answer(b"", 404), globex=board(job(1)))
    growing: Any = {"backoff": "20m..40m", "backoff_growth": "2", "backoff_cap": "6h"}
    outcome = room.enter(refresh, **growing)
    assert outcome.status is Status.PARTIAL
    assert remembered(room, "failures, last_error, last_ok_at") == (1, "answered 404", None)
    feeds.asked.clear()
    outcome = room.enter(refresh, force=True, **growing)
    assert (outcome.status, outcome.hint, len(feeds.asked)) == (Status.PARTIAL, None, 1)
    assert outcome.error is not None
    said = (
        r"no source failed anew\. Left alone, because they failed before: acme \(answered 404; failures: 1; until 20"
    )
    assert re.match(said, outcome.error)
    assert room.query("select error from refresh_runs order by fence desc limit 1") == [(outcome.error,)]
    minutes = "extract(epoch from next_fetch_at - now()) / 60"
    for failures, least, most in [
        (1, 19, 40),
        (2, 39, 80),
        (3, 79, 160),
        (4, 159, 320),
        (5, 319, 360),
        (6, 359, 360),
    ]:
        assert remembered(room, "failures") == failures
        assert least < remembered(room, minutes) <= most
        no_longer_waiting(room)
        assert room.enter(refresh, force=True, **growing).status is Status.PARTIAL
    no_longer_waiting(room)
    feeds.serve(acme=board(job(2)), globex=board(job(1)))
    assert room.enter(refresh, force=True, **growing).status is Status.SUCCESS
    assert remembered(room, "failures, last_error, next_fetch_at") == (0, None, None)
    assert open_now(room) == ["1", "2"]


def test_a_source_whose_entry_was_corrected_need_not_wait(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=answer(b"", 404), globex=board(job(1)))
    room.enter(refresh)
    feeds.serve(acme=board(job(2)), globex=board(job(1)))
    feeds.rename_path("acme", "acme?mended")
    assert again(room).status is Status.SUCCESS
    assert open_now(room) == ["1", "2"]


def test_when_every_source_fails_each_failure_is_kept_and_all_are_asked_by_the_next_run(
    room: Room, feeds: Feeds
) -> None:
    feeds.serve(acme=answer(b"", 404), globex=answer(b"", 410))
    assert room.enter(refresh).status is Status.FAILED
    assert remembered(room, "failures, last_error") == (1, "answered 404")
    assert remembered(room, "failures, last_error", "globex") == (1, "answered 410")
    feeds.asked.clear()
    feeds.serve(acme=answer(b"", 404), globex=board(job(1)))
    outcome = again(room)
    assert (outcome.status, len(feeds.asked), open_now(room)) == (Status.PARTIAL, 2, ["1"])
    assert remembered(room, "failures") == 2


def test_a_run_that_lost_its_lease_remembers_nothing_of_its_sources(room: Room, feeds: Feeds) -> None:
    def slow(handler: BaseHTTPRequestHandler) -> None:
        room.take_over()
        answer(b"", 404)(handler)

    feeds.serve(acme=slow)
    assert room.enter(refresh).http_status == 409
    columns = "definition, items, last_ok_at, failures, last_error, next_fetch_at"
    assert room.query(f"select {columns} from opening_sources") == [(None, None, None, 0, None, None)]


def test_the_healthy_are_asked_before_those_that_failed(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRONLEASE_SOURCES_AT_ONCE", "1")
    feeds.serve(acme=answer(b"", 404), globex=board(job(1)))
    room.enter(refresh)
    no_longer_waiting(room)
    feeds.asked.clear()
    again(room)
    assert [asked["path"] for asked in feeds.asked] == ["/globex", "/acme"]


def test_a_source_whose_turn_did_not_come_has_not_failed(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(handler: BaseHTTPRequestHandler) -> None:
        feeds.over.wait(30)

    monkeypatch.setenv("CRONLEASE_SOURCES_AT_ONCE", "1")
    monkeypatch.setattr(limiter, "PATIENCE", 60.0)
    feeds.serve(acme=silent, globex=silent, initech=silent)
    outcome = room.enter(refresh, lease="2s")
    assert outcome.error is not None
    assert "initech (its turn did not come in time)" in outcome.error
    assert room.query("select name, failures from opening_sources order by name") == [
        ("acme", 1),
        ("globex", 1),
        ("initech", 0),
    ]


def test_a_feed_of_many_pages_closes_only_when_all_of_them_came(room: Room, feeds: Feeds) -> None:
    feeds.kind = "jsonfeed"
    feeds.serve(acme=versioned(feed(1, 2, next_url="/second")))
    feeds.answers["second"] = answer(feed(3, 4))
    assert counts(room.enter(refresh)) == (4, 4, 0, 0, 0)
    # A version of the first page says nothing of the second.
    assert remembered(room, "etag, items") == (None, 4)
    feeds.answers["acme"] = answer(feed(1, next_url="/second"))
    for wrong in (answer(b"", 404), answer(feed(3)[:-9]), answer(feed(3, next_url="/acme"))):
        feeds.answers["second"] = wrong
        assert again(room).status is Status.FAILED
        assert open_now(room) == ["1", "2", "3", "4"]
    feeds.answers["second"] = answer(feed(3))
    assert counts(again(room)) == (2, 0, 0, 2, 2)
    assert open_now(room) == ["1", "3"]


def test_when_the_database_lost_what_was_staged_nothing_is_closed(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash of the server, which empties unlogged tables while the run goes on."""
    feeds.kind = "jsonfeed"
    feeds.serve(acme=feed(1, 2, next_url="/second"))
    feeds.answers["second"] = answer(feed(3))
    room.enter(refresh)

    def crash(handler: BaseHTTPRequestHandler) -> None:
        room.query("truncate opening_staging, opening_staging_pages")
        answer(feed(3))(handler)

    monkeypatch.setattr("opening_signals.collect.PAGE", 1)
    feeds.answers["second"] = crash
    outcome = again(room)
    assert outcome.status is Status.FAILED
    assert outcome.error is not None
    assert "what was staged is gone" in outcome.error
    assert open_now(room) == ["1", "2", "3"]


def test_a_feed_described_by_its_user_is_remembered_like_any_other(
    room: Room, feeds: Feeds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds.serve(acme=board(job(1), job(2)))
    url = f"http://127.0.0.1:{feeds.server.server_port}/acme"
    entry = f"""
        [[source]]
        name = "own"
        kind = "json"
        url = "{url}"
        allow_private = true
        items = "jobs.item"
        [source.fields]
        external_id = "to_string(id)"
        title = "title"
        [[source]]
        name = "bent"
        kind = "greenhouse"
        url = "{url}"
        allow_private = true
        [source.fields]
        location = "title"
    """
    (tmp_path / "own.toml").write_text(entry)
    monkeypatch.setenv("CRONLEASE_SOURCES", str(tmp_path / "own.toml"))
    assert counts(room.enter(refresh)) == (4, 4, 0, 0, 0)
    assert counts(again(room)) == (4, 0, 0, 4, 0)


def test_a_server_that_does_not_page_is_a_failure_and_not_asked_forever(room: Room, feeds: Feeds) -> None:
    feeds.kind = "lever"
    page = [{"id": str(number), "text": "Baker"} for number in range(100)]
    feeds.serve(acme=json.dumps(page).encode())
    outcome = room.enter(refresh)
    assert outcome.status is Status.FAILED
    assert outcome.error is not None
    assert "the same page again" in outcome.error
    # The second time as asked, the third as a server needs it that rounds offsets down.
    assert len(feeds.asked) == 3


def test_all_pages_of_a_source_together_are_bounded(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opening_signals.collect.MOST_BYTES", 1024**2)
    feeds.kind = "jsonfeed"
    page = feed(1, next_url="/second")
    feeds.serve(acme=page + b" " * 600_000)
    feeds.answers["second"] = answer(feed(2) + b" " * 600_000)
    outcome = room.enter(refresh)
    assert outcome.error is not None
    assert "acme (has more than 1 MiB in all of its pages)" in outcome.error
