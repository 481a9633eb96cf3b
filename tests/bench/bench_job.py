"""100,000 openings: staging and merge beside a bare COPY of the same rows into a table of the same shape.

    python -m tests.bench.bench_job [--count 100000]

Every figure includes its commit, and is given by wall clock and by processor (ours and the server's): another tenant
of the machine slows only the first. Goals: a first load at least 0.40 as fast as the bare COPY; a reload of unchanged
openings at least 5 times as fast as the plain way (COPY into a temporary table, insert on conflict where the hash
differs), no row of opening_signals written, and under 100 kB of WAL. The first load is vacuumed before the reloads,
as the server does by itself: whoever reads new rows first writes WAL for them.
"""

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from psycopg import AsyncConnection

from opening_signals.collect import PAGE
from opening_signals.feeds.model import Opening
from opening_signals.store import upsert
from opening_signals.store.lock import lock_sources
from tests.bench import command
from tests.bench.side_by_side import Cost, compare, cpu_of, database, show
from tests.bench.table import Row, below

QUICK = {"count": 5_000, "rounds": 2}
WAL_LIMIT = 100_000
NAMES = (
    "bare COPY",
    "first load",
    "plain reload",
    "unchanged reload",
    "1 % changed",
    "all changed",
    "in another order",
)
_BARE = b"""
copy bare (
  source, external_id, title, organization, location, url, posted_at, department, remote,
  payload, content_hash, payload_hash
)
from stdin
"""
_PLAIN_STAGE = _BARE.replace(b"bare", b"plain")
_PLAIN_MERGE = b"""
insert into %s as o (
  source, external_id, title, organization, location, url, posted_at, department, remote,
  payload, content_hash, payload_hash
)
select source, external_id, title, organization, location, url, posted_at, department, remote,
  payload, content_hash, payload_hash
from plain
on conflict (source, external_id) do update
set title = excluded.title,
    organization = excluded.organization,
    location = excluded.location,
    url = excluded.url,
    posted_at = excluded.posted_at,
    department = excluded.department,
    remote = excluded.remote,
    payload = excluded.payload,
    content_hash = excluded.content_hash,
    payload_hash = excluded.payload_hash
where o.content_hash is distinct from excluded.content_hash
"""


def opening(number: int, title: str) -> Opening:
    """About 400 bytes as a row, most of it payload."""
    item = {
        "id": 4_000_000 + number,
        "internal_job_id": 3_000_000 + number,
        "title": title,
        "updated_at": "2026-11-10T09:12:44-05:00",
        "first_published": "2026-11-02T14:00:00-05:00",
        "requisition_id": f"R-{number}",
        "location": {"name": "Leeds, UK"},
        "absolute_url": f"https://boards.example/acme/jobs/{4_000_000 + number}",
        "metadata": None,
    }
    return Opening.of(
        item,
        external_id=str(item["id"]),
        title=title,
        organization="Acme",
        location="Leeds, UK",
        url=item["absolute_url"],
        posted_at=item["first_published"],
    )


async def bare_copy(conn: AsyncConnection[Any], rows: Sequence[tuple[Any, ...]], into: bytes = _BARE) -> None:
    async with conn.cursor().copy(into) as copy:
        for row in rows:
            await copy.write_row(row)


async def plain(
    conn: AsyncConnection[Any], rows: Sequence[tuple[Any, ...]], into: bytes = b"public.opening_signals"
) -> None:
    async with conn.transaction():
        await conn.execute("create temporary table plain (like bare including defaults) on commit drop")
        await bare_copy(conn, rows, _PLAIN_STAGE)
        await conn.execute(_PLAIN_MERGE % into)


async def load(conn: AsyncConnection[Any], openings: Sequence[Opening]) -> upsert.Merged:
    """As the job does it: a COPY per page, then the merge in a transaction of its own."""
    request_id = uuid4()
    staging = upsert.Staging(request_id, "acme")
    for start in range(0, len(openings), PAGE):
        await staging.add(conn, openings[start : start + PAGE])
    async with conn.transaction():
        await lock_sources(conn, ["acme"])
        return await upsert.merge(conn, request_id, {"acme": staging.pages})


async def cost(conn: AsyncConnection[Any], work: Callable[[], Awaitable[object]]) -> Cost:
    cpu, wall = time.process_time() + cpu_of([conn.info.backend_pid]), time.perf_counter()
    await work()
    wall = time.perf_counter() - wall
    return Cost(wall, time.process_time() + cpu_of([conn.info.backend_pid]) - cpu)


async def value(conn: AsyncConnection[Any], query: bytes, *params: Any) -> Any:
    row = await (await conn.execute(query, params)).fetchone()
    assert row is not None
    return row[0]


async def unchanged(conn: AsyncConnection[Any], openings: Sequence[Opening]) -> tuple[Cost, int]:
    """What a reload costs, and how many bytes of WAL it wrote."""
    rows = b"select md5(string_agg((ctid, xmin, xmax)::text, ' ' order by ctid)) from public.opening_signals"
    before, start = await value(conn, rows), await value(conn, b"select pg_current_wal_insert_lsn()")
    spent = await cost(conn, lambda: load(conn, openings))
    wal = await value(conn, b"select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)::bigint", start)
    assert before == await value(conn, rows), "an unchanged reload wrote rows"
    return spent, wal


async def one_round(
    conn: AsyncConnection[Any], first: list[Opening], second: list[Opening]
) -> tuple[list[Cost], int]:
    """The costs in the order of NAMES, and the WAL of the unchanged reload."""
    await conn.execute("drop table if exists bare")
    await conn.execute("create table bare (like public.opening_signals including all)")
    await conn.execute("truncate public.opening_signals, public.opening_staging, public.opening_staging_pages")
    rows = [("acme", *each) for each in first]
    bare = await cost(conn, lambda: bare_copy(conn, rows))
    loaded = await cost(conn, lambda: load(conn, first))
    await conn.execute("vacuum analyze public.opening_signals")
    reloaded = await cost(conn, lambda: plain(conn, rows))
    same, wal = await unchanged(conn, first)
    few = len(first) // 100
    some = await cost(conn, lambda: load(conn, second[:few] + first[few:]))
    every = await cost(conn, lambda: load(conn, first[:few] + second[few:]))
    backwards, _ = await unchanged(conn, (first[:few] + second[few:])[::-1])
    return [bare, loaded, reloaded, same, some, every, backwards], wal


async def measure(url: str, first: list[Opening], second: list[Opening], rounds: int) -> list[tuple[list[Cost], int]]:
    async with await AsyncConnection.connect(url, autocommit=True) as conn:
        # Before: the server and we load what the first of all rounds would wait for.
        await one_round(conn, first[:PAGE], second[:PAGE])
        return [await one_round(conn, first, second) for _ in range(rounds)]


def rows(*, count: int = 100_000, rounds: int = 4) -> Iterator[Row]:
    first = [opening(number, f"Store Manager {number}") for number in range(count)]
    second = [opening(number, f"Shop Manager {number}") for number in range(count)]
    places = random.Random(7).sample(range(count), count)
    with database(None) as bench:
        for order in ("in the order of their keys", "in any order"):
            if order == "in any order":
                first, second = [first[place] for place in places], [second[place] for place in places]
            costs = asyncio.run(measure(bench.url, first, second, rounds))
            # The cost of one opening, so that the rates are openings per second.
            found = {
                name: [Cost._make(spent / count for spent in each[place]) for each, _ in costs]
                for place, name in enumerate(NAMES)
            }
            title = f"{count:,} openings {order}"
            show(title, found, NAMES[0], as_rate=True)
            yield compare(f"first load, {title}", found, "first load", "bare COPY", ">= 0.40", rate="rows/s")
            yield compare(
                f"unchanged reload, {title}", found, "unchanged reload", "plain reload", ">= 5", rate="rows/s"
            )
            wal = statistics.median(wal for _, wal in costs)
            yield below(f"WAL of an unchanged reload, {title}", wal / 1000, "kB", WAL_LIMIT / 1000)


if __name__ == "__main__":
    command.run(rows, QUICK)
