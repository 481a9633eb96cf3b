"""One bad neighbour: a host that hangs, refuses or asks to wait costs only its own sources time."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from cronlease.outcome import Outcome, Status
from opening_signals import limiter
from opening_signals.job import refresh
from tests.integration.boards import Answer, Feeds, answer, board, counts, job, served, titles
from tests.integration.conftest import Room, wait_until


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeds]:
    yield from served(tmp_path, monkeypatch)


@pytest.fixture
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feeds: Feeds) -> Iterator[Feeds]:
    """A second server, which is another host."""
    (tmp_path / "others").mkdir()
    yield from served(tmp_path / "others", monkeypatch)


@pytest.fixture
def together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts the sources of both servers into one file, those of the second first."""

    def write() -> None:
        listed = [(tmp_path / name / "sources.toml").read_text() for name in ("others", ".")]
        (tmp_path / "all.toml").write_text("\n".join(listed))
        monkeypatch.setenv("CRONLEASE_SOURCES", str(tmp_path / "all.toml"))

    return write


def hanging(feeds: Feeds) -> Answer:
    """Sends headers and no body."""

    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.flush()
        feeds.over.wait(60)

    return send


def again(room: Room, **environment: str) -> Outcome:
    return room.enter(refresh, force=True, **environment)


@pytest.mark.thorough
def test_what_is_complete_is_committed_while_others_hang_and_a_host_that_hangs_is_left_alone(
    room: Room, feeds: Feeds, others: Feeds, together: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "PATIENCE", 0.05)
    monkeypatch.setenv("CRONLEASE_SOURCES_AT_ONCE", "1")
    others.serve(**{f"hung{number}": hanging(others) for number in range(8)})
    feeds.serve(**{f"board{number}": board(job(number)) for number in range(12)})
    together()
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(room.enter(refresh, lease="10s")))
    thread.start()
    wait_until(lambda: len(titles(room)) == 12)
    assert room.query("select status from refresh_runs") == [("running",)]
    thread.join(30)
    (outcome,) = outcomes
    assert (outcome.status, counts(outcome)) == (Status.PARTIAL, (12, 12, 0, 0, 0))
    # Two at a time, until they have been silent three times in a row; no other has failed.
    asked = {request["path"] for request in others.asked}
    assert len(asked) <= 4
    assert outcome.error is not None
    assert "Not asked: " in outcome.error
    failed = room.query("select count(*) from opening_sources where name like 'hung%' and failures > 0")
    assert failed == [(len(asked),)]
    others.over.set()


def test_a_source_that_drips_delays_only_itself(
    room: Room, feeds: Feeds, others: Feeds, together: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        body = board(job(99))
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        wait_until(lambda: len(titles(room)) == 3)
        handler.wfile.write(body)

    monkeypatch.setattr(limiter, "PATIENCE", 0.05)
    monkeypatch.setenv("CRONLEASE_SOURCES_AT_ONCE", "1")
    others.serve(slow=drip)
    feeds.serve(**{f"board{number}": board(job(number)) for number in range(3)})
    together()
    outcome = room.enter(refresh)
    assert (outcome.status, counts(outcome)) == (Status.SUCCESS, (4, 4, 0, 0, 0))


@pytest.mark.parametrize("bound", ["1", "3", None])
def test_no_host_has_more_than_so_many_requests_at_a_time(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch, bound: str | None
) -> None:
    if bound:
        monkeypatch.setenv("CRONLEASE_PER_HOST", bound)
    lock = threading.Lock()
    now, most = 0, 0

    def count(handler: BaseHTTPRequestHandler) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.05)
        with lock:
            now -= 1
        answer(board(job(1)))(handler)

    feeds.serve(**{f"board{number}": count for number in range(12)})
    assert counts(room.enter(refresh))[0] == 12
    assert 1 <= most <= int(bound or 2)


@pytest.mark.thorough
def test_all_boards_of_a_host_that_allows_few_requests_arrive_in_one_run(room: Room, feeds: Feeds) -> None:
    """Five requests a second, and whoever comes too soon is told when to come again."""
    lock = threading.Lock()
    began, used, refused = time.monotonic(), 0, 0

    def limited(handler: BaseHTTPRequestHandler) -> None:
        nonlocal began, used, refused
        with lock:
            if time.monotonic() - began > 1:
                began, used = time.monotonic(), 0
            used += 1
            allowed = used <= 5
            refused += not allowed
        (answer(board(job(1))) if allowed else answer(b"", 429, Retry_After="1"))(handler)

    feeds.serve(**{f"board{number}": limited for number in range(12)})
    outcome = room.enter(refresh)
    assert (outcome.status, counts(outcome)) == (Status.SUCCESS, (12, 12, 0, 0, 0))
    # Not everybody learns it anew: the host is left alone.
    assert 0 < refused <= 10


def test_an_hour_is_what_the_source_waits_also_when_there_is_no_other(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=answer(b"", 429, Retry_After="3600"))
    assert room.enter(refresh, backoff="20m..20m").status is Status.FAILED
    waits = "select round(extract(epoch from next_fetch_at - now()) / 60) from opening_sources where name = 'acme'"
    assert room.query(waits) == [(60,)]
    feeds.serve(acme=board(job(1)))
    feeds.asked.clear()
    outcome = again(room)
    assert (outcome.status, feeds.asked) == (Status.PARTIAL, [])
    room.query("update opening_sources set next_fetch_at = now() where name = 'acme'")
    assert again(room).status is Status.SUCCESS


def test_a_host_that_asks_for_an_hour_is_not_asked_for_its_other_sources(
    room: Room, feeds: Feeds, others: Feeds, together: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRONLEASE_PER_HOST", "1")
    feeds.serve(**{f"busy{number}": answer(b"", 503, Retry_After="3600") for number in range(3)})
    others.serve(acme=board(job(1)))
    together()
    outcome = room.enter(refresh)
    assert (outcome.status, len(feeds.asked)) == (Status.PARTIAL, 1)
    assert outcome.error is not None
    assert outcome.error.startswith("1 of 4 sources failed: busy0 (answered 503 and asks to wait")
    assert "Not asked: busy1 (its host asked to be left alone for 3600 s); busy2" in outcome.error
    assert room.query("select name from opening_sources where failures > 0") == [("busy0",)]


def test_a_run_that_loses_its_lease_between_two_pieces_writes_nothing_more(
    room: Room, feeds: Feeds, others: Feeds, together: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(handler: BaseHTTPRequestHandler) -> None:
        wait_until(lambda: len(titles(room)) == 1)
        room.take_over()
        answer(board(job(2)))(handler)

    others.serve(acme=lose)
    feeds.serve(globex=board(job(1)))
    together()
    outcome = room.enter(refresh)
    assert (outcome.http_status, titles(room)) == (409, {"globex/1": "Baker"})


def test_the_error_names_the_first_ten_and_counts_the_rest(room: Room, feeds: Feeds) -> None:
    feeds.serve(**{f"gone{number}": answer(b"", 404) for number in range(13)}, acme=board(job(1)))
    outcome = room.enter(refresh)
    assert outcome.error is not None
    assert outcome.error.startswith("13 of 14 sources failed: gone0 (answered 404); gone1 (answered 404);")
    assert outcome.error.endswith("gone9 (answered 404); and 3 more")
    error = again(room).error
    assert error is not None
    assert error.endswith("; and 3 more")
