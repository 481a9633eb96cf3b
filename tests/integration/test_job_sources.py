"""The sources of a run: how many in parallel, and those that are left alone, read in another way, or gone."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import psycopg
import pytest

from cronlease.outcome import Outcome, Status
from opening_signals import limiter
from opening_signals.feeds import KINDS
from opening_signals.feeds.json_feed import JsonKind
from opening_signals.job import refresh
from opening_signals.store import orphaned_sources
from tests.integration.boards import Feeds, answer, board, counts, job, served, titles, versioned
from tests.integration.conftest import Room, wait_until


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeds]:
    yield from served(tmp_path, monkeypatch)


def again(room: Room) -> Outcome:
    return room.enter(refresh, force=True)


def error_of(room: Room) -> str:
    ((error,),) = room.query("select error from refresh_runs order by fence desc limit 1")
    return str(error)


@pytest.mark.parametrize("bound", ["3", None])
def test_all_sources_are_asked_in_parallel_within_the_bound(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch, bound: str | None
) -> None:
    if bound:
        monkeypatch.setenv("CRONLEASE_SOURCES_AT_ONCE", bound)
    monkeypatch.setenv("CRONLEASE_PER_HOST", "64")
    monkeypatch.setattr(limiter, "PATIENCE", 60.0)
    most = int(bound or 8)
    together = threading.Barrier(most)
    one_too_many = threading.Event()
    lock = threading.Lock()
    now = 0

    def meet(handler: BaseHTTPRequestHandler) -> None:
        nonlocal now
        with lock:
            now += 1
            if now > most:
                one_too_many.set()
        together.wait(20)
        one_too_many.wait(0.3)  # held for a moment, in case another is let in
        with lock:
            now -= 1
        answer(board(job(1)))(handler)

    feeds.serve(**{f"board{number}": meet for number in range(2 * most)})
    assert counts(room.enter(refresh))[0] == 2 * most
    assert not one_too_many.is_set()


@pytest.mark.parametrize("written", ["0", "65", "eight", "-1", "1.5", "9" * 5000])
def test_an_invalid_bound_fails_the_run_in_one_sentence(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setenv("CRONLEASE_SOURCES_AT_ONCE", written)
    feeds.serve(acme=board(job(1)))
    outcome = room.enter(refresh)
    assert (outcome.status, feeds.asked) == (Status.FAILED, [])
    said = f"SettingError: CRONLEASE_SOURCES_AT_ONCE: '{written[:20]}' is not a whole number from 1 to 64"
    assert outcome.error == said


def test_a_new_failure_is_named_before_those_that_are_left_alone(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=answer(b"", 404), globex=board(job(1)), initech=board(job(2)))
    assert room.enter(refresh).status is Status.PARTIAL
    ((until,),) = room.query(
        "select date_trunc('minute', next_fetch_at at time zone 'UTC')::text from opening_sources where name = 'acme'"
    )
    left_alone = f"Left alone, because they failed before: acme (answered 404; failures: 1; until {until} UTC)"
    assert again(room).status is Status.PARTIAL
    assert error_of(room) == f"no source failed anew. {left_alone}"

    feeds.serve(acme=answer(b"", 404), globex=answer(b"", 410), initech=board(job(2)))
    assert again(room).status is Status.PARTIAL
    assert error_of(room) == f"1 of 3 sources failed: globex (answered 410). {left_alone}"

    feeds.serve(acme=answer(b"", 404), globex=answer(b"", 410), initech=answer(b"", 403))
    assert again(room).status is Status.FAILED
    assert "every source that was asked failed: initech (answered 403). Left alone," in error_of(room)
    assert "acme (answered 404;" in error_of(room)
    assert "globex (answered 410;" in error_of(room)


def test_a_feed_that_is_read_otherwise_than_before_is_asked_for_all_of_it(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds.serve(acme=versioned(board(job(1) | {"department": "Bakery"})))
    room.enter(refresh)
    assert counts(again(room)) == (0, 0, 0, 0, 0)
    kind = KINDS["greenhouse"]
    assert isinstance(kind, JsonKind)
    changed = kind.preset | {"fields": kind.preset["fields"] | {"location": "department"}}
    monkeypatch.setitem(KINDS, "greenhouse", JsonKind(changed))
    assert counts(again(room)) == (1, 0, 1, 0, 0)
    assert "if-none-match" not in feeds.asked[-1]
    assert room.query("select location from opening_signals") == [("Bakery",)]
    assert counts(again(room)) == (0, 0, 0, 0, 0)


def test_a_source_that_left_the_file_is_named_until_it_is_forgotten(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=board(job(1), job(2)), globex=board(job(3)), initech=board(job(4)))
    room.enter(refresh)
    again(room)
    feeds.serve(globex=board(job(3)))
    outcome = again(room)
    assert (outcome.status, counts(outcome)) == (Status.SUCCESS, (1, 0, 0, 1, 0))
    assert outcome.hint == (
        "open openings of sources that are not in the file: acme (2), initech (1);"
        " cronlease sources forget NAME closes them"
    )
    ((seen_at,),) = room.query("select last_seen_at from opening_sources where name = 'acme'")
    with psycopg.connect(room.dsn, autocommit=True) as conn:
        assert [orphaned_sources.forget_source(conn, name) for name in ("acme", "initech")] == [2, 1]
        assert orphaned_sources.source_exists(conn, "acme")
        assert not orphaned_sources.source_exists(conn, "umbrella")
    assert again(room).hint is None
    assert room.query("select name from opening_sources") == [("globex",)]
    assert room.query("select distinct source from opening_pages") == [("globex",)]
    assert room.query("select distinct last_seen_at, closed_at is null from openings where source = 'acme'") == [
        (seen_at, False)
    ]
    feeds.serve(acme=board(job(1), job(2)), globex=board(job(3)))
    assert counts(again(room)) == (3, 0, 2, 1, 0)


def test_forgetting_a_source_waits_for_the_run_that_writes_of_it(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=board(job(1)))
    room.enter(refresh)
    closed: list[int] = []

    def forget() -> None:
        with psycopg.connect(room.dsn, autocommit=True) as conn:
            closed.append(orphaned_sources.forget_source(conn, "acme"))

    waiting = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    with psycopg.connect(room.dsn) as merge:
        merge.execute("select name from opening_sources where name = 'acme' for no key update")
        thread = threading.Thread(target=forget)
        thread.start()
        wait_until(lambda: bool(room.query(waiting)))
        merge.execute("insert into opening_signals (source, external_id, title) values ('acme', '2', 'Cook')")
        assert closed == []
        merge.commit()
    thread.join(20)
    assert closed == [2]
    assert titles(room) == {"acme/1": "Baker", "acme/2": "Cook"}
