"""The same openings into tables of the same shape: ours beside a bare COPY, COPY and merge, executemany, SQLAlchemy
and dlt.

    python -m tests.bench.bench_peers [--count 100000] [--rounds 2] [--in-order]

First load into an empty table, a vacuum, then the same rows in the same order again, which a bare COPY cannot, with
the WAL that it wrote. The order is any but that of the keys, unless told so. dlt has its defaults and makes its table
itself, two columns more. Every figure includes its connection and commit; a ratio is to the bare COPY of the
same round, by wall clock and by processor (ours and the server's).
"""

import asyncio
import importlib
import json
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from psycopg import AsyncConnection, Connection

from opening_signals.feeds.model import Opening
from tests.bench import command
from tests.bench.bench_job import bare_copy, load, opening, plain
from tests.bench.peers import is_installed
from tests.bench.served import workers_of
from tests.bench.side_by_side import Bench, Cost, compare, cpu_of, database, show
from tests.bench.table import Row

QUICK = {"count": 3_000, "rounds": 2}
BASE, OURS, LIBRARIES = "bare COPY", "ours", ("SQLAlchemy", "dlt")
COLUMNS = ("source", *Opening._fields)
_KEY = ("source", "external_id")
_SAID = [name for name in COLUMNS if name not in _KEY]
_CHANGES = ", ".join(f"{name} = excluded.{name}" for name in _SAID)
_UPSERT = (
    f"insert into peer as o ({', '.join(COLUMNS)}) values ({', '.join(['%s'] * len(COLUMNS))})"
    f" on conflict (source, external_id) do update set {_CHANGES}"
    " where o.content_hash is distinct from excluded.content_hash"
).encode()


class Work(NamedTuple):
    """The rows of a round and where they go; name is dlt's schema."""

    bench: Bench
    runner: asyncio.Runner
    openings: Sequence[Opening]
    rows: Sequence[tuple[Any, ...]]
    name: str


Load = Callable[[], object]


def connected(work: Work, call: Callable[[AsyncConnection[Any]], Awaitable[object]]) -> Load:
    async def connect() -> None:
        async with await AsyncConnection.connect(work.bench.url, autocommit=True) as conn:
            await call(conn)

    return lambda: work.runner.run(connect())


def executemany(work: Work) -> Load:
    def upsert() -> None:
        with work.bench.connect() as conn, conn.transaction():
            conn.cursor().executemany(_UPSERT, work.rows)

    return upsert


def sqlalchemy(work: Work) -> Load:
    """Core, the documented way: one statement and a list of dicts."""
    core, dialect = importlib.import_module("sqlalchemy"), importlib.import_module("sqlalchemy.dialects.postgresql")
    url = work.bench.url.replace("postgresql://", "postgresql+psycopg://")
    # The payload is JSON already; to write it once more would only slow it down.
    engine = core.create_engine(url, json_serializer=lambda text: text)
    table = core.Table("peer", core.MetaData(), autoload_with=engine)
    insert = dialect.insert(table)
    statement = insert.on_conflict_do_update(
        index_elements=list(_KEY),
        set_={name: insert.excluded[name] for name in _SAID},
        where=table.c.content_hash.is_distinct_from(insert.excluded.content_hash),
    )

    def upsert() -> None:
        with engine.begin() as conn:
            conn.execute(statement, [dict(zip(COLUMNS, row, strict=True)) for row in work.rows])
        engine.dispose()

    return upsert


def dlt(work: Work) -> Load:
    """Its merge with the strategy upsert, which needs no delete."""
    os.environ.update({"RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "ERROR"})
    library = importlib.import_module("dlt")
    pipeline = library.pipeline(
        work.name,
        pipelines_dir=str(work.bench.place / "dlt"),
        destination=library.destinations.postgres(work.bench.url.partition("?")[0]),
        dataset_name=work.name,
    )

    def items() -> Any:
        for each in work.openings:
            # It wants what the JSON says, not its text.
            yield {"source": "acme", **each._asdict(), "payload": json.loads(each.payload)}

    def merge() -> None:
        resource = library.resource(
            items,
            name="peer",
            write_disposition={"disposition": "merge", "strategy": "upsert"},
            primary_key=list(_KEY),
            columns={"payload": {"data_type": "json"}},
        )
        pipeline.run(resource).raise_on_failed_jobs()

    return merge


PEERS: dict[str, Callable[[Work], Load]] = {
    BASE: lambda work: connected(work, lambda conn: bare_copy(conn, work.rows)),
    OURS: lambda work: connected(work, lambda conn: load(conn, work.openings)),
    "COPY and merge": lambda work: connected(work, lambda conn: plain(conn, work.rows, b"peer")),
    "executemany": executemany,
    "SQLAlchemy": sqlalchemy,
    "dlt": dlt,
}


def server_cpu(postmaster: int) -> float:
    """Of all its processes, those that have ended included."""
    fields = Path(f"/proc/{postmaster}/stat").read_text().rpartition(")")[2].split()
    return cpu_of(workers_of(postmaster)) + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def cost(work: Work, call: Load) -> Cost:
    cpu, wall = time.process_time() + server_cpu(work.bench.postmaster), time.perf_counter()
    call()
    wall = time.perf_counter() - wall
    return Cost(wall, time.process_time() + server_cpu(work.bench.postmaster) - cpu)


class Found(NamedTuple):
    """What its first load and, where it can, the same again cost, and the bytes of WAL of the latter."""

    costs: list[Cost]
    wal: int = 0


def one_peer(work: Work, name: str) -> Found:
    table = {BASE: "bare", OURS: "public.opening_signals", "dlt": f"{work.name}.peer"}.get(name, "peer")
    with work.bench.connect() as conn:
        for each in (b"bare", b"peer"):
            conn.execute(b"drop table if exists " + each)
            conn.execute(b"create table %s (like public.opening_signals including all)" % each)
        conn.execute("truncate public.opening_signals, public.opening_staging, public.opening_staging_pages")
        conn.execute("checkpoint")
        call = PEERS[name](work)
        found = Found([cost(work, call)])
        if name != BASE:
            conn.execute("vacuum analyze")
            conn.execute("checkpoint")
            start = value(conn, "select pg_current_wal_insert_lsn()")
            found = Found([*found.costs, cost(work, call)])
            found = found._replace(wal=value(conn, f"select pg_current_wal_insert_lsn() - '{start}'::pg_lsn"))
        assert value(conn, f"select count(*) from {table}") == len(work.rows), name
        assert value(conn, f"select count(distinct external_id) from {table}") == len(work.rows), name
        conn.execute(f"drop schema if exists {work.name} cascade".encode())
    print(f"  {name}: {', '.join(f'{each.wall:.2f} s ({each.cpu:.2f} of cpu)' for each in found.costs)}", flush=True)
    return found


def value(conn: Connection[Any], query: str) -> Any:
    row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def each_row(count: int, order: str, rounds: Sequence[dict[str, Found]]) -> Iterator[Row]:
    """Ours beside every peer, for the first load and for the same again."""
    for place, title in enumerate(("first load", "the same again")):
        # The cost of one opening, so that the rates are openings per second.
        found = {
            name: [Cost._make(spent / count for spent in each[name].costs[place]) for each in rounds]
            for name, first in rounds[0].items()
            if len(first.costs) > place
        }
        what = f"{title}, {count:,} openings {order}"
        show(what, found, next(iter(found)), as_rate=True)
        for name in found:
            if name != OURS:
                yield compare(what, found, OURS, name, rate="rows/s")
    wal = {name: statistics.median(each[name].wal for each in rounds) for name in rounds[0] if name != BASE}
    print("bytes of WAL, the same again:", ", ".join(f"{name} {size:,.0f}" for name, size in wal.items()))


def rows(*, count: int = 100_000, rounds: int = 2, in_order: bool = False) -> Iterator[Row]:
    """In any order, or with `in_order` in that of their keys."""
    openings = [opening(number, f"Store Manager {number}") for number in range(count)]
    if not in_order:
        random.Random(7).shuffle(openings)
    order = "in the order of their keys" if in_order else "in any order"
    missing = [name for name in LIBRARIES if not is_installed(name)]
    with database(None) as bench, asyncio.Runner() as runner:
        costs = []
        for turn in range(rounds):
            print(f"{count:,} openings, round {turn + 1} of {rounds}", flush=True)
            work = Work(bench, runner, openings, [("acme", *each) for each in openings], f"peer_{turn}")
            names = [name for name in PEERS if name not in missing]
            costs.append({name: one_peer(work, name) for name in (names[::-1] if turn % 2 else names)})
        yield from each_row(count, order, [{name: each[name] for name in PEERS if name in each} for each in costs])
    for name in missing:
        yield Row(f"first load, {count:,} openings {order}", compared=name, note=f"{name} cannot be installed here")


if __name__ == "__main__":
    command.run(rows, QUICK, peers=LIBRARIES)
