"""The promise: any number of hits, one real run."""

import asyncio
from collections import Counter

import httpx2
import pytest

from tests.acceptance.conftest import Serve, Served
from tests.faults import profile
from tests.faults.profile import thorough
from tests.integration.conftest import Room

HITS = 50


async def volley(servers: list[Served]) -> list[str]:
    """All hits at once, spread over the servers; what each answered."""
    limits = httpx2.Limits(max_connections=HITS)
    async with httpx2.AsyncClient(timeout=30, limits=limits) as client:
        hits = (client.post(servers[n % len(servers)].url) for n in range(HITS))
        answers = [response.json() for response in await asyncio.gather(*hits)]
    assert all(answer["ok"] for answer in answers), answers
    return [answer["reason"] or answer["status"] for answer in answers]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("processes", [thorough(1), 2])
def test_of_fifty_simultaneous_hits_exactly_one_runs(
    serve: Serve, room: Room, processes: int, pytestconfig: pytest.Config
) -> None:
    known = profile.of(pytestconfig)
    rounds, kept = known.n("P1 http"), 0
    room.query("create table effect (request_id uuid)")
    servers = [serve(room.dsn) for _ in range(processes)]
    servers[0].force()
    seen: Counter[str] = Counter()
    for _ in range(rounds):
        room.query("update refresh_schedule set next_run_at = null")
        answers = Counter(asyncio.run(volley(servers)))
        kept += answers["success"] == 1 and set(answers) <= {"success", "locked", "not_due"}
        seen += answers
    known.record(f"P1 over HTTP, processes: {processes}", kept, rounds, answers=seen)
    assert seen.total() == HITS * rounds
    assert room.query("select count(*), count(distinct request_id) from effect") == [(rounds + 1, rounds + 1)]
    assert room.runs() == ["success"] * (rounds + 1)


def test_the_very_first_hits_may_all_come_at_the_same_time(serve: Serve, empty_dsn: str) -> None:
    """On an empty database, through two processes: the schema is made once and one of them runs."""
    room = Room(empty_dsn)
    room.query("create table effect (request_id uuid)")
    answers = Counter(asyncio.run(volley([serve(empty_dsn), serve(empty_dsn)])))
    assert answers["success"] == 1, answers
    assert set(answers) <= {"success", "locked", "not_due"}
    assert room.query("select count(*) from effect") == [(1,)]


def test_a_second_hit_does_not_wait_for_the_first(serve: Serve, room: Room) -> None:
    room.query("create table effect (request_id uuid)")
    served = serve(room.dsn)

    async def overlap() -> None:
        async with httpx2.AsyncClient(timeout=30) as client:
            first = asyncio.create_task(client.post(served.url, json={"args": {"sleep": 3}}))
            while not room.query("select 1 from refresh_schedule where locked_by is not null"):
                await asyncio.sleep(0.01)
            for body in ({}, {"force": True}):
                second = (await client.post(served.url, json=body)).json()
                assert second["reason"] == "locked"
                assert second["locked_until"] is not None
            assert not first.done()
            assert (await first).json()["status"] == "success"

    asyncio.run(overlap())
