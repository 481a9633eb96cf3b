"""P13: duplicate deliveries are harmless: each slot comes one to five times, in any order, and is run once."""

import asyncio
import random

import httpx2
import pytest

from tests.acceptance.conftest import Serve, Served
from tests.faults.profile import Profile
from tests.faults.scene import mutant, sql
from tests.integration.conftest import Room


@pytest.fixture
def room(dsn: str) -> Room:
    room = Room(dsn)
    room.query("create table effect (request_id uuid); select ensure_schedule('tick')")
    return room


@pytest.fixture
def servers(serve: Serve, room: Room) -> list[Served]:
    return [serve(room.dsn) for _ in range(2)]


def runs_in(room: Room, servers: list[Served], slots: int, source: random.Random) -> int:
    async def deliver(client: httpx2.AsyncClient, slot: int) -> None:
        await asyncio.sleep(source.uniform(0, 0.03))
        headers = {"X-CloudScheduler": "true", "X-CloudScheduler-ScheduleTime": f"2026-01-01T00:00:00.{slot:06}Z"}
        answer = (await client.post(source.choice(servers).url, headers=headers)).json()
        assert answer["ok"], answer

    async def deliveries() -> None:
        async with httpx2.AsyncClient(timeout=30) as client:
            for slot in range(slots):
                room.query("update refresh_schedule set next_run_at = null")
                await asyncio.gather(*(deliver(client, slot) for _ in range(source.randint(1, 5))))

    asyncio.run(deliveries())
    return len(room.query("select distinct request_id from effect"))


@pytest.mark.timeout(1800)
def test_a_slot_that_is_delivered_again_is_run_once(room: Room, servers: list[Served], profile: Profile) -> None:
    slots = profile.n("P13")
    profile.record("P13", runs_in(room, servers, slots, profile.random("P13")), slots)


@pytest.mark.thorough
def test_a_database_that_lets_everybody_through_is_seen(room: Room, servers: list[Served], profile: Profile) -> None:
    """The negative control: a row that is never too early."""
    room.query(mutant(sql("refresh_skip_reason"), "next_run_at > p_at", "next_run_at > 'infinity'"))
    assert runs_in(room, servers, 10, profile.random("P13 control")) > 10
