"""A source that may have killed a run is fetched alone, after the others are stored; one that did is left alone."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import psycopg
import pytest

from cronlease.outcome import Outcome, Status
from opening_signals import limiter
from opening_signals.job import refresh
from tests.integration.boards import Answer, Feeds, answer, board, counts, job, served, titles
from tests.integration.conftest import NAME, Room

NAMES = ("acme", "globex", "hooli")
DIED = "the last run ended while it was being fetched"


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeds]:
    yield from served(tmp_path, monkeypatch)


def again(room: Room) -> Outcome:
    return room.enter(refresh, force=True)


def known(room: Room, feeds: Feeds) -> None:
    """All sources have been fetched once."""
    feeds.serve(**{name: board(job(1)) for name in NAMES})
    assert again(room).status is Status.SUCCESS
    feeds.asked.clear()


def end_while_fetching(room: Room, *names: str, alone: bool = False, status: str = "running") -> None:
    """As a run leaves it that ends with that status while it fetches these sources."""
    listed = ", ".join(f"'{name}'" for name in names)
    room.query(
        f"select acquire_refresh_lock('{NAME}', gen_random_uuid(), p_force => true);"
        f"update opening_sources set fetching_run = locked_by::uuid, fetching_definition = definition,"
        f" fetching_alone = {alone} from refresh_schedule where name in ({listed});"
        f"update refresh_runs set status = '{status}', finished_at = {'null' if status == 'running' else 'now()'}"
        " where status = 'running';"
        "update refresh_schedule set locked_until = clock_timestamp() - interval '1 s'"
    )


def notes(room: Room) -> list[tuple[str, bool]]:
    return room.query(
        "select name, fetching_alone from opening_sources"
        " where fetching_run is not null or fetching_definition is not null or fetching_alone order by name"
    )


def asked(feeds: Feeds) -> list[str]:
    return [request["path"].strip("/") for request in feeds.asked]


def test_a_fetch_is_noted_while_it_lasts_and_no_longer(room: Room, feeds: Feeds) -> None:
    seen = []

    def look(handler: BaseHTTPRequestHandler) -> None:
        seen.extend(
            room.query(
                "select s.name, s.fetching_alone from opening_sources s"
                " join refresh_runs r on r.request_id = s.fetching_run and r.status = 'running'"
            )
        )
        answer(board(job(1)))(handler)

    feeds.serve(acme=look, globex=answer(b"", 404))
    assert again(room).status is Status.PARTIAL
    assert ("acme", False) in seen
    assert notes(room) == []


def test_suspects_are_fetched_one_at_a_time_after_the_others_are_stored(room: Room, feeds: Feeds) -> None:
    known(room, feeds)
    end_while_fetching(room, "acme", "globex")
    busy = threading.Lock()
    stored: dict[str, dict[str, str]] = {}

    def suspect(name: str) -> Answer:
        def send(handler: BaseHTTPRequestHandler) -> None:
            assert busy.acquire(blocking=False), "two at a time"
            stored[name] = titles(room)
            busy.release()
            answer(board(job(1, "Cook")))(handler)

        return send

    feeds.serve(acme=suspect("acme"), globex=suspect("globex"), hooli=board(job(1, "Cook")))
    outcome = again(room)
    assert (outcome.status, counts(outcome)) == (Status.SUCCESS, (3, 0, 3, 0, 0))
    first, second = asked(feeds)[1:]
    assert (asked(feeds)[0], {first, second}) == ("hooli", {"acme", "globex"})
    assert stored[first] == {"acme/1": "Baker", "globex/1": "Baker", "hooli/1": "Cook"}
    assert stored[second] == stored[first] | {f"{first}/1": "Cook"}
    assert notes(room) == []


def test_a_source_that_was_fetched_alone_when_the_run_died_is_left_alone(room: Room, feeds: Feeds) -> None:
    known(room, feeds)
    end_while_fetching(room, "acme", alone=True)
    outcome = again(room)
    assert (outcome.status, outcome.error) == (Status.PARTIAL, f"1 of 3 sources failed: acme ({DIED})")
    assert sorted(asked(feeds)) == ["globex", "hooli"]
    kept = "select failures, last_error, next_fetch_at > now() + interval '10 minutes' from opening_sources"
    assert room.query(f"{kept} where name = 'acme'") == [(1, DIED, True)]
    feeds.asked.clear()
    outcome = again(room)
    assert sorted(asked(feeds)) == ["globex", "hooli"]
    assert outcome.error is not None
    assert f"Left alone, because they failed before: acme ({DIED}; failures: 1" in outcome.error
    # Its time has come: it is fetched alone, and last, and that clears it.
    room.query("update opening_sources set next_fetch_at = now() where name = 'acme'")
    assert notes(room) == [("acme", True)]
    feeds.asked.clear()
    assert again(room).status is Status.SUCCESS
    assert (asked(feeds)[-1], len(feeds.asked)) == ("acme", 3)
    assert notes(room) == []


@pytest.mark.thorough
def test_a_suspect_whose_turn_did_not_come_is_still_one(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(handler: BaseHTTPRequestHandler) -> None:
        feeds.over.wait(30)

    known(room, feeds)
    end_while_fetching(room, "acme")
    monkeypatch.setenv("CRONLEASE_SOURCES_AT_ONCE", "1")
    monkeypatch.setattr(limiter, "PATIENCE", 60.0)
    feeds.serve(acme=board(job(1)), globex=silent, hooli=silent)
    outcome = room.enter(refresh, force=True, lease="2s")
    assert outcome.error is not None
    assert "acme (its turn did not come in time)" in outcome.error
    assert notes(room) == [("acme", False)]
    assert room.query("select failures from opening_sources where name = 'acme'") == [(0,)]


def test_a_source_that_fails_in_another_way_when_it_is_fetched_alone_is_cleared(room: Room, feeds: Feeds) -> None:
    known(room, feeds)
    end_while_fetching(room, "acme")
    feeds.serve(acme=answer(b"", 404), globex=board(job(1)), hooli=board(job(1)))
    outcome = again(room)
    assert (outcome.status, outcome.error) == (Status.PARTIAL, "1 of 3 sources failed: acme (answered 404)")
    assert notes(room) == []


def test_when_every_source_is_to_blame_the_run_fails_and_asks_nobody(room: Room, feeds: Feeds) -> None:
    known(room, feeds)
    end_while_fetching(room, *NAMES, alone=True)
    outcome = again(room)
    assert outcome.status is Status.FAILED
    assert outcome.error is not None
    assert outcome.error.count(DIED) == 3
    assert asked(feeds) == []


@pytest.mark.parametrize("status", ["interrupted", "failed", "partial", "success"])
def test_a_run_that_ended_in_order_leaves_no_suspects(room: Room, feeds: Feeds, status: str) -> None:
    known(room, feeds)
    end_while_fetching(room, "acme", alone=True, status=status)
    assert again(room).status is Status.SUCCESS
    assert (sorted(asked(feeds)), notes(room)) == ([*NAMES], [])


def test_an_entry_that_has_changed_since_is_not_suspected(room: Room, feeds: Feeds) -> None:
    known(room, feeds)
    end_while_fetching(room, "acme", alone=True)
    feeds.rename_path("acme", "acme?mended")
    assert again(room).status is Status.SUCCESS
    assert len(feeds.asked) == 3


def test_a_source_whose_first_fetch_killed_the_run_is_suspected(room: Room, feeds: Feeds) -> None:
    known(room, feeds)
    end_while_fetching(room, "acme", alone=True)
    room.query("update opening_sources set definition = null, items = null, last_ok_at = null where name = 'acme'")
    outcome = again(room)
    assert outcome.error == f"1 of 3 sources failed: acme ({DIED})"


def test_a_run_that_lost_its_lease_notes_nothing_more(
    room: Room, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = []

    def lose(handler: BaseHTTPRequestHandler) -> None:
        room.take_over()
        answer(b"", 404)(handler)

    def look(handler: BaseHTTPRequestHandler) -> None:
        noted.append(notes(room))
        answer(b"", 404)(handler)

    known(room, feeds)
    feeds.serve(acme=lose, globex=look)
    room.query("update opening_sources set failures = 1 where name = 'globex'")
    room.query("update refresh_schedule set next_run_at = null")
    monkeypatch.setenv("CRONLEASE_SOURCES_AT_ONCE", "1")
    monkeypatch.setattr(limiter, "PATIENCE", 60.0)
    assert room.enter(refresh).http_status == 409
    assert noted == [[]]


def test_a_note_does_not_wait_for_another_writer_of_the_source(room: Room, feeds: Feeds) -> None:
    known(room, feeds)
    with psycopg.connect(room.dsn) as other:
        other.execute("select from opening_sources where name = 'acme' for update")

        def let_go(handler: BaseHTTPRequestHandler) -> None:
            other.rollback()
            answer(board(job(1)))(handler)

        feeds.serve(acme=let_go)
        assert again(room).status is Status.SUCCESS
