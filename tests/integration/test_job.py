"""The job in the room: real HTTP feeds on loopback, a real database, the real run."""

import logging
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from cronlease.outcome import Status
from opening_signals import collect
from opening_signals.collect import PAGE
from opening_signals.feeds import KINDS
from opening_signals.feeds.model import Opening, Source
from opening_signals.http import fetch
from opening_signals.job import refresh
from opening_signals.store import upsert
from tests.integration.boards import Answer, Feeds, answer, board, counts, job, served, titles
from tests.integration.conftest import Room


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeds]:
    yield from served(tmp_path, monkeypatch)


def test_a_first_run_inserts_and_the_next_writes_only_what_changed(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=board(job(1), job(2)), globex=board(job(1, "Cook")))
    assert counts(room.enter(refresh)) == (3, 3, 0, 0, 0)
    seen = room.query("select source, external_id, first_seen_at from opening_signals order by 1, 2")

    feeds.serve(acme=board(job(1), job(2, "Head Baker"), job(3)), globex=board(job(1, "Cook")))
    outcome = room.enter(refresh, force=True)
    assert (outcome.status, counts(outcome)) == (Status.SUCCESS, (4, 1, 1, 2, 0))
    assert titles(room) == {"acme/1": "Baker", "acme/2": "Head Baker", "acme/3": "Baker", "globex/1": "Cook"}
    again = room.query("select source, external_id, first_seen_at from opening_signals order by 1, 2")
    assert [row for row in again if row[:2] != ("acme", "3")] == seen
    recorded = "select fetched, inserted, updated, unchanged, closed from refresh_runs order by fence"
    assert room.query(recorded) == [(3, 3, 0, 0, 0), (4, 1, 1, 2, 0)]
    assert room.query("select external_id from opening_staging") == []
    assert room.query("select external_ids from opening_staging_pages") == []


def test_an_unchanged_run_touches_no_row(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=board(*(job(number) for number in range(300))))
    room.enter(refresh)
    rows = room.query("select ctid, xmin, xmax from opening_signals order by external_id")
    assert counts(room.enter(refresh, force=True)) == (300, 0, 0, 300, 0)
    assert room.query("select ctid, xmin, xmax from opening_signals order by external_id") == rows


def _drop(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.close()


def _truncated(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"jobs": [')
    handler.close_connection = True


WRONG: dict[str, tuple[Answer, str]] = {
    "gone": (answer(b'{"status": 404}', 404), "answered 404"),
    "broken": (answer(board(), 500), "answered 500"),
    "not_modified": (answer(b"", 304), "answered 304"),
    "moved": (answer(b"", 301, Location="/page"), "web page"),
    "page": (answer(b"<html>We are hiring</html>", Content_Type="text/html; charset=utf-8"), "web page"),
    "posing_page": (answer(b"<html>We are hiring</html>"), "it is not JSON"),
    "no_marker": (answer(b'{"meta": {"total": 0}}'), "has no list `jobs`"),
    "all_bad": (answer(board(job(None))), "its only item is not usable: external_id: is missing"),
    "brotli": (answer(board(), Content_Encoding="br"), "encoding"),
    "bad_gzip": (answer(board(), Content_Encoding="gzip"), "broken gzip"),
    "dropped": (_drop, "the request failed"),
    "truncated": (_truncated, "the request failed"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_source_that_fails_costs_only_itself_and_closes_nothing(room: Room, feeds: Feeds, wrong: str) -> None:
    feeds.serve(acme=board(job(1)), globex=board(job(1)))
    room.enter(refresh)
    wrong_answer, said = WRONG[wrong]
    feeds.serve(acme=wrong_answer, globex=board(job(1), job(2)))
    feeds.answers["page"] = WRONG["page"][0]
    outcome = room.enter(refresh, force=True)
    assert (outcome.status, counts(outcome)) == (Status.PARTIAL, (2, 1, 0, 1, 0))
    ((error,),) = room.query("select error from refresh_runs where status = 'partial'")
    assert error.startswith("1 of 2 sources failed: acme (")
    assert said in error
    assert room.query("select count(*) from opening_signals where closed_at is null") == [(3,)]


def test_when_every_source_fails_the_run_fails_and_names_them(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=answer(b"", 404), globex=answer(b"", 503))
    outcome = room.enter(refresh)
    assert outcome.status is Status.FAILED
    assert outcome.error is not None
    assert "every source failed: acme (answered 404); globex (answered 503)" in outcome.error


def test_a_source_that_dribbles_is_given_up_in_time(room: Room, feeds: Feeds) -> None:
    def dribble(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not feeds.over.wait(0.05):
            handler.wfile.write(b" ")

    feeds.serve(acme=dribble, globex=board(job(1)))
    outcome = room.enter(refresh, lease="2s")
    assert (outcome.status, counts(outcome)) == (Status.PARTIAL, (1, 1, 0, 0, 0))
    ((error,),) = room.query("select error from refresh_runs")
    # Three fifths of the lease, less what the run took up to here.
    assert re.fullmatch(r"1 of 2 sources failed: acme \(was not done after 1(\.[0-2]\d?)? s\)", error), error
    assert outcome.duration_ms < 2000


def test_a_private_address_is_not_reached_unless_allowed(room: Room, feeds: Feeds) -> None:
    feeds.allow_private = "false"
    feeds.serve(acme=board(job(1)))
    outcome = room.enter(refresh)
    assert outcome.error is not None
    assert "allow_private = true" in outcome.error
    assert feeds.asked == []


def test_without_sources_the_run_is_a_success_with_a_hint(room: Room, feeds: Feeds) -> None:
    feeds.serve()
    outcome = room.enter(refresh)
    assert (outcome.status, counts(outcome)) == (Status.SUCCESS, (0, 0, 0, 0, 0))
    assert outcome.hint is not None
    assert "CRONLEASE_SOURCES" in outcome.hint


def test_a_bad_sources_file_fails_the_run_in_one_sentence(room: Room, feeds: Feeds) -> None:
    outcome = room.enter(refresh)
    assert outcome.status is Status.FAILED
    assert outcome.error is not None
    assert outcome.error.startswith("SourcesError: the sources file ")
    assert outcome.error.endswith("cannot be read: No such file or directory")


def test_a_run_that_lost_its_lease_while_fetching_writes_nothing(room: Room, feeds: Feeds) -> None:
    def slow(handler: BaseHTTPRequestHandler) -> None:
        room.take_over()
        answer(board(job(1)))(handler)

    feeds.serve(acme=slow)
    outcome = room.enter(refresh)
    assert outcome.http_status == 409
    assert titles(room) == {}


def test_what_a_dead_run_staged_is_swept_by_the_next_and_never_merged(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds.serve(acme=board(job(1), job(2)))

    async def die(*_: object) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patched:
        patched.setattr(upsert, "merge", die)
        assert room.enter(refresh).status is Status.FAILED
    assert room.query("select count(*) from opening_staging") == [(2,)]
    feeds.serve(acme=board(job(3)))
    assert counts(room.enter(refresh, force=True)) == (1, 1, 0, 0, 0)
    assert room.query("select count(*) from opening_staging") == [(0,)]
    assert list(titles(room)) == ["acme/3"]


def test_what_the_database_refuses_costs_that_source_only(room: Room, feeds: Feeds) -> None:
    room.query("alter table opening_staging add constraint no_cooks check (title <> 'Cook')")
    feeds.serve(acme=board(job(1), job(2, "Cook")), globex=board(job(1)))
    outcome = room.enter(refresh)
    assert (outcome.status, list(titles(room))) == (Status.PARTIAL, ["globex/1"])
    assert "no_cooks" in room.query("select error from refresh_runs")[0][0]


def test_an_error_nobody_foresaw_costs_one_source_and_its_text_stays_in_the_log(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = fetch.get

    async def surprising(http: Any, source: Source, url: str, **options: Any) -> Any:
        if source.name == "acme":
            raise KeyError("s3cret")
        return await real(http, source, url, **options)

    monkeypatch.setattr(collect, "get", surprising)
    monkeypatch.setattr(logging.getLogger("cronlease"), "propagate", True)
    feeds.serve(acme=board(), globex=board(job(1)))
    assert room.enter(refresh).status is Status.PARTIAL
    ((error,),) = room.query("select error from refresh_runs")
    assert error == "1 of 2 sources failed: acme (an unexpected error, KeyError: see the log)"
    assert "s3cret" in caplog.text


def test_openings_are_parsed_away_from_the_loop_so_that_other_hits_are_answered(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = KINDS["greenhouse"]
    real, threads = kind.opening, set()

    def opening(item: Any, source: Source, repairs: list[str]) -> Opening | None:
        threads.add(threading.current_thread())
        return real(item, source, repairs)

    monkeypatch.setattr(kind, "opening", opening)
    feeds.serve(acme=board(*(job(number) for number in range(PAGE + 1))))
    assert counts(room.enter(refresh))[0] == PAGE + 1
    assert threads
    assert threading.current_thread() not in threads
