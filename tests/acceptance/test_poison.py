"""Poison that kills the process costs a backoff, not a loop, and nothing that was there before."""

import tomllib
from pathlib import Path

import httpx2
import pytest

from cronlease.emulator.feeds import FeedServer
from tests.acceptance.conftest import Serve, answers
from tests.integration.conftest import Room, wait_until

POISON = Path(__file__).parent / "poison.py"


def test_from_the_third_run_that_a_source_killed_each_costs_a_backoff_and_the_good_rows_are_kept(
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
        good = room.query("select source, external_id, content_hash from opening_signals order by 1, 2")
        assert len(good) == 16
        entries = listed.read_text()
        url = tomllib.loads(entries)["source"][0]["url"]
        poison = f'[[source]]\nname = "poison"\nkind = "poison"\nurl = "{url}"\nallow_private = true\n'
        listed.write_text(f"{entries}\n{poison}")
        room.query("update refresh_schedule set next_run_at = null")
        for killed in range(1, 5):
            with pytest.raises(httpx2.TransportError):
                served.hit()
            assert room.query("select status from refresh_runs where status <> 'success' order by fence") == [
                *[("abandoned",)] * (killed - 1),
                ("running",),
            ]
            wait_until(lambda: answers(served))
            # As if its time had passed.
            room.query("update refresh_schedule set locked_until = now() - interval '1 s'")
        answer = served.hit().json()
    assert (answer["skipped"], answer["reason"]) == (True, "not_due")
    minutes = "extract(epoch from next_run_at - now()) / 60"
    ((abandoned, wait),) = room.query(f"select abandoned, {minutes} from refresh_schedule")
    assert abandoned == 3
    assert 19 < wait <= 40
    assert room.query("select source, external_id, content_hash from opening_signals order by 1, 2") == good
    assert room.query("select count(*) from opening_signals where closed_at is not null") == [(0,)]
