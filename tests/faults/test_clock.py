"""P11: callers' clocks do not matter: functions that are a day early or late run as often as the others."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Protocol

import httpx2
import pytest

from tests.acceptance.conftest import JOBS, Served
from tests.faults.processes import serving_as
from tests.faults.profile import Profile
from tests.integration.conftest import Room
from tests.require import need


class ServeAt(Protocol):
    def __call__(self, source: Path, *offsets: str) -> list[Served]: ...


OFFSETS = {"-1d": timedelta(days=-1), "+0": timedelta(0), "+1d": timedelta(days=1)}


@pytest.fixture
def serve_at(room: Room, tmp_path: Path) -> Iterator[ServeAt]:
    """Serves in processes whose clocks are off by so much. Under plain uvicorn: the sleep of gunicorn's master fails
    under this library."""
    library = need("libfaketime", "/usr/lib/*/faketime/libfaketime.so.1")
    fake = {"LD_PRELOAD": library, "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DATABASE_URL": room.dsn}
    with ExitStack() as stack:

        def start(source: Path, *offsets: str) -> list[Served]:
            servers = []
            for offset in offsets:
                log = tmp_path / f"{offset}.log"
                served = stack.enter_context(serving_as("uvicorn", source, "tick", log, FAKETIME=offset, **fake))
                believes = parsedate_to_datetime(served.hit("/health/live", method="GET").headers["Date"])
                assert abs(believes - datetime.now(UTC) - OFFSETS[offset]) < timedelta(minutes=1)
                servers.append(served)
            return servers

        yield start


def runs_in(room: Room, servers: list[Served], rounds: int) -> int:
    """How many runs there were when the function was due so often, and each time every server was hit twice."""

    async def volley() -> None:
        async with httpx2.AsyncClient(timeout=30) as client:
            await asyncio.gather(*(client.post(served.url) for served in servers))

    for _ in range(rounds):
        room.query("update refresh_schedule set next_run_at = null")
        asyncio.run(volley())
        asyncio.run(volley())
    return len(room.query("select 1 from effect"))


@pytest.fixture
def room(dsn: str) -> Room:
    room = Room(dsn)
    room.query("create table effect (request_id uuid); select ensure_schedule('tick')")
    return room


@pytest.mark.timeout(1800)
def test_a_clock_that_is_a_day_off_decides_nothing(serve_at: ServeAt, room: Room, profile: Profile) -> None:
    rounds = profile.n("P11")
    servers = serve_at(JOBS, *OFFSETS)
    runs = runs_in(room, servers, rounds)
    ((soon,),) = room.query(
        "select next_run_at - clock_timestamp() between interval '9 min' and interval '15 min' from refresh_schedule"
    )
    assert soon
    profile.record("P11", runs, rounds)


def test_a_function_that_asks_its_own_clock_is_seen(serve_at: ServeAt, room: Room) -> None:
    """The negative control."""
    servers = serve_at(Path(__file__).with_name("own_clock.py"), "+0", "+1d")
    assert runs_in(room, servers, 3) > 3
