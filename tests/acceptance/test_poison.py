"""Poison that kills the process costs a backoff, not a loop, and nothing that was there before."""

import tomllib
from pathlib import Path

import httpx2
import pytest

from opening_signals.samples.feeds import FeedServer
from tests.acceptance.conftest import Serve, Served, answers
from tests.integration.conftest import Room, wait_until

pytestmark = pytest.mark.thorough

POISON = Path(__file__).parent / "poison.py"
DIED = "the last run ended while it was being fetched"
MINUTES = "extract(epoch from next_run_at - now()) / 60"


def hit_and_die(served: Served, room: Room) -> None:
    """A hit whose run kills its process; its lease is over at once, and another process serves."""
    with pytest.raises(httpx2.TransportError):
        served.hit()
    wait_until(lambda: answers(served))
    room.query("update refresh_schedule set locked_until = now() - interval '1 s'")


def test_from_the_third_run_in_a_row_that_killed_its_process_each_costs_a_backoff(serve: Serve, room: Room) -> None:
    served = serve(room.dsn, target="die", source=POISON, CRONLEASE_BACKOFF="20m..40m")
    for killed in range(1, 5):
        hit_and_die(served, room)
        assert room.query("select status from refresh_runs order by fence") == [
            *[("abandoned",)] * (killed - 1),
            ("running",),
        ]
    answer = served.hit().json()
    assert (answer["skipped"], answer["reason"]) == (True, "not_due")
    ((abandoned, wait),) = room.query(f"select abandoned, {MINUTES} from refresh_schedule")
    assert abandoned == 3
    assert 19 < wait <= 40


def test_a_source_that_kills_the_process_is_left_alone_and_the_others_are_stored(
    serve: Serve, room: Room, tmp_path: Path
) -> None:
    listed = tmp_path / "sources.toml"
    with FeedServer(latency=0) as feeds:
        feeds.start()
        feeds.write_sources(listed, ("acme", "globex"))
        served = serve(
            room.dsn,
            target="refresh_opening_signals",
            source=POISON,
            CRONLEASE_SOURCES=str(listed),
            CRONLEASE_BACKOFF="20m..40m",
        )
        assert served.force()["status"] == "success"
        room.query("truncate opening_signals; update refresh_schedule set next_run_at = null")
        entries = listed.read_text()
        url = tomllib.loads(entries)["source"][0]["url"]
        poison = f'[[source]]\nname = "poison"\nkind = "poison"\nurl = "{url}"\nallow_private = true\n'
        listed.write_text(f"{poison}\n{entries}")
        # Together with the others, so that all of them are suspected; then alone, when the others are stored.
        hit_and_die(served, room)
        hit_and_die(served, room)
        stored = "select source, count(*) from openings where open group by source order by source"
        assert room.query(stored) == [("acme", 8), ("globex", 8)]
        answer = served.hit().json()
        assert (answer["status"], answer["fetched"]) == ("partial", 16)
        assert answer["error"] == f"1 of 3 sources failed: poison ({DIED})"
        answer = served.force()
        assert answer["status"] == "partial"
        assert f"Left alone, because they failed before: poison ({DIED}; failures: 1; until" in answer["error"]
        # Its backoff is over, and it has not changed: it kills no more than the one run that asks it.
        room.query("update opening_sources set next_fetch_at = now() where name = 'poison'")
        room.query("update refresh_schedule set next_run_at = null")
        hit_and_die(served, room)
        assert served.hit().json()["error"] == f"1 of 3 sources failed: poison ({DIED})"
    assert room.query("select failures from opening_sources where name = 'poison'") == [(2,)]
    assert room.query("select status from refresh_runs order by fence") == [
        ("success",),
        *[("abandoned",)] * 2,
        *[("partial",)] * 2,
        ("abandoned",),
        ("partial",),
    ]


def test_a_task_that_calls_exit_fails_its_run_and_the_process_serves_on(serve: Serve, room: Room) -> None:
    served = serve(room.dsn, target="leave", source=POISON)
    for _ in range(2):
        answer = served.hit(json={"force": True})
        assert (answer.status_code, answer.json()["status"]) == (500, "failed")
        assert "sys.exit()" in answer.json()["error"]
