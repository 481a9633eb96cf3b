"""The openings table alone: first_seen_at that nobody can move, staging and merge."""

import asyncio
import random
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import AsyncConnection

from cronlease.migrate import migrate
from opening_signals import upsert
from opening_signals.model import Opening
from opening_signals.upsert import Merged

# Beside what older_schema.sql has: a row that does not know when it was first seen.
OLDER = """
create table public.opening_signals (
  source text,
  external_id text,
  title text,
  url text,
  first_seen_at timestamp default localtimestamp,
  primary key (source, external_id)
);
insert into public.opening_signals
values ('acme', '1', 'Baker', 'https://boards.example/1', '2025-03-01 12:00'),
  ('acme', '2', null, null, null);
"""


def opening(external_id: str, title: str = "Baker") -> Opening:
    return Opening.of(
        {"id": external_id, "title": title},
        external_id=external_id,
        title=title,
        organization="Acme",
        location="Leeds",
        url=f"https://boards.example/{external_id}",
        posted_at="2026-11-02",
    )


async def _load(dsn: str, source: str, openings: Sequence[Opening]) -> Merged:
    request_id = uuid4()
    async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
        half = len(openings) // 2
        await upsert.stage(conn, request_id, source, openings[:half], start=0)
        await upsert.stage(conn, request_id, source, openings[half:], start=half)
        async with conn.transaction():
            return await upsert.merge(conn, request_id, [source])


def load(dsn: str, source: str, openings: Sequence[Opening]) -> Merged:
    return asyncio.run(_load(dsn, source, openings))


def one(conn: psycopg.Connection[Any], text: str) -> Any:
    row = conn.execute(text.encode()).fetchone()
    assert row is not None
    return row[0] if len(row) == 1 else row


def test_older_rows_are_filled_by_the_next_merge_and_keep_when_they_were_first_seen(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(OLDER.encode())
        migrate(empty_dsn)
        migrated_at = one(conn, "select first_seen_at from opening_signals where external_id = '2'")
        assert migrated_at is not None
        assert load(empty_dsn, "acme", [opening("1"), opening("2"), opening("3")]) == Merged(3, inserted=1, updated=2)
        seen = "select array_agg(first_seen_at order by external_id) from opening_signals"
        assert one(conn, seen)[:2] == [datetime(2025, 3, 1, 12, tzinfo=UTC), migrated_at]
        filled = "select count(*) from opening_signals where organization = 'Acme' and payload ->> 'title' = 'Baker'"
        assert one(conn, filled) == 3


@pytest.mark.parametrize("given", ["'2001-01-01'", "'infinity'", "null", "default", "now() + interval '1 second'"])
def test_first_seen_at_is_set_by_the_database_whatever_the_insert_says(
    conn: psycopg.Connection[Any], given: str
) -> None:
    with conn.transaction():
        conn.execute(
            f"insert into opening_signals (source, external_id, first_seen_at) values ('a', '1', {given})".encode()
        )
        assert one(conn, "select first_seen_at = transaction_timestamp() from opening_signals")


@pytest.mark.parametrize("given", ["'2001-01-01'", "null", "default", "clock_timestamp()"])
def test_first_seen_at_survives_every_update(conn: psycopg.Connection[Any], given: str) -> None:
    conn.execute("insert into opening_signals (source, external_id) values ('a', '1')")
    before = one(conn, "select first_seen_at from opening_signals")
    conn.execute(f"update opening_signals set title = 'x', first_seen_at = {given}".encode())
    conn.execute(
        f"insert into opening_signals (source, external_id, first_seen_at) values ('a', '1', {given})"
        " on conflict (source, external_id) do update set first_seen_at = excluded.first_seen_at".encode()
    )
    assert one(conn, "select first_seen_at, title from opening_signals") == (before, "x")


def test_a_bulk_load_does_not_wake_the_trigger(dsn: str, conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "create or replace function keep_first_seen_at() returns trigger language plpgsql as"
        " $$ begin raise exception 'awake'; end $$"
    )
    assert load(dsn, "acme", [opening("1"), opening("2")]).inserted == 2
    assert load(dsn, "acme", [opening("1", "Baker"), opening("2", "Cook")]).updated == 1
    with pytest.raises(psycopg.errors.RaiseException, match="awake"):
        conn.execute("update opening_signals set first_seen_at = '2001-01-01'")


def test_a_content_hash_of_another_length_is_refused(conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="content_hash_is_a_sha256"):
        conn.execute("insert into opening_signals (source, external_id, content_hash) values ('a', '1', 'short')")


def test_a_merge_counts_what_it_did(dsn: str, conn: psycopg.Connection[Any]) -> None:
    assert load(dsn, "acme", [opening("1"), opening("2"), opening("3")]) == Merged(3, 3, 0)
    assert one(conn, "select count(*) from opening_signals where changed_at is null and closed_at is null") == 3
    merged = load(dsn, "acme", [opening("1"), opening("2", "Cook"), opening("4")])
    assert (merged, merged.unchanged) == (Merged(fetched=3, inserted=1, updated=1), 1)
    changed = (
        "select external_id, title, changed_at > first_seen_at from opening_signals where changed_at is not null"
    )
    assert one(conn, changed) == ("2", "Cook", True)
    assert one(conn, "select count(*) from opening_staging") == 0


def test_an_unchanged_reload_writes_nothing(dsn: str, conn: psycopg.Connection[Any]) -> None:
    openings = [opening(str(number)) for number in range(500)]
    load(dsn, "acme", openings)
    rows = "select array_agg((ctid, xmin, xmax)::text order by external_id) from opening_signals"
    before = one(conn, rows)
    assert load(dsn, "acme", openings) == Merged(500, 0, 0)
    assert one(conn, rows) == before


def test_an_opening_that_returns_is_open_again_without_counting_as_changed(
    dsn: str, conn: psycopg.Connection[Any]
) -> None:
    load(dsn, "acme", [opening("1")])
    conn.execute("update opening_signals set closed_at = now()")
    assert load(dsn, "acme", [opening("1")]) == Merged(1, 0, 1)
    assert one(conn, "select closed_at, changed_at from opening_signals") == (None, None)


def test_the_last_of_two_with_the_same_id_wins(dsn: str, conn: psycopg.Connection[Any]) -> None:
    load(dsn, "acme", [opening("1", "Baker")])
    back_to_the_same = [opening("1", "Cook"), opening("2", "Cook"), opening("2", "Florist"), opening("1", "Baker")]
    assert load(dsn, "acme", back_to_the_same) == Merged(fetched=2, inserted=1, updated=0)
    assert one(conn, "select array_agg(title order by external_id) from opening_signals") == ["Baker", "Florist"]


def test_the_same_id_in_another_source_is_another_opening(dsn: str, conn: psycopg.Connection[Any]) -> None:
    load(dsn, "acme", [opening("1", "Baker")])
    assert load(dsn, "globex", [opening("1", "Cook")]) == Merged(1, 1, 0)
    assert one(conn, "select array_agg(title order by source) from opening_signals") == ["Baker", "Cook"]


def test_only_complete_sources_are_merged_and_the_staging_of_others_is_left_alone(
    dsn: str, conn: psycopg.Connection[Any]
) -> None:
    ours, theirs = uuid4(), uuid4()

    async def work() -> Merged:
        async with await AsyncConnection.connect(dsn, autocommit=True) as each:
            await upsert.stage(each, ours, "whole", [opening("1")], start=0)
            await upsert.stage(each, ours, "torn", [opening("2")], start=0)
            await upsert.stage(each, theirs, "whole", [opening("3")], start=0)
            return await upsert.merge(each, ours, ["whole"])

    assert asyncio.run(work()) == Merged(1, 1, 0)
    assert one(conn, "select source, external_id from opening_signals") == ("whole", "1")
    assert one(conn, "select array_agg(request_id) from opening_staging") == [theirs]


def _open_run(conn: psycopg.Connection[Any], function: str, status: str) -> UUID:
    request_id = uuid4()
    conn.execute(
        "insert into refresh_runs"
        " (request_id, function_name, action, fence, trigger, started_at, status, finished_at)"
        " values (%(id)s, %(name)s, %(name)s, 1, 'manual', now(), %(status)s,"
        " case when %(status)s <> 'running' then now() end)",
        {"id": request_id, "name": function, "status": status},
    )
    return request_id


def test_a_sweep_removes_what_dead_runs_left_and_nothing_of_live_ones(
    dsn: str, conn: psycopg.Connection[Any]
) -> None:
    ours = _open_run(conn, "ours", "running")
    live = _open_run(conn, "another", "running")
    dead, unknown = _open_run(conn, "ours", "abandoned"), uuid4()

    async def work() -> int:
        async with await AsyncConnection.connect(dsn, autocommit=True) as each:
            for request_id in (ours, live, dead, unknown):
                await upsert.stage(each, request_id, "acme", [opening("1")], start=0)
            return await upsert.sweep(each, ours)

    assert asyncio.run(work()) == 2
    assert set(one(conn, "select array_agg(request_id) from opening_staging")) == {ours, live}


def test_two_writers_at_once_neither_deadlock_nor_lose_an_opening(dsn: str, conn: psycopg.Connection[Any]) -> None:
    rounds, names = 15, [str(number) for number in range(120)]
    together = threading.Barrier(4)
    troubles: list[BaseException] = []

    def write(writer: int) -> None:
        draw = random.Random(writer)
        for turn in range(rounds):
            mine = draw.sample(names, 90)
            together.wait(30)
            try:
                load(dsn, "acme", [opening(name, f"{writer} {turn}") for name in [*mine, *mine[:9]]])
            except psycopg.Error as error:
                troubles.append(error)

    threads = [threading.Thread(target=write, args=[writer]) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []
    assert one(conn, "select count(*) from opening_signals") == len(names)
    assert one(conn, "select count(*) from opening_staging") == 0


@pytest.mark.parametrize(("title", "merged"), [("Baker", Merged(1, 0, 0)), ("Cook", Merged(1, 0, 1))])
def test_another_writer_who_got_there_first_is_waited_for_and_counted_right(
    dsn: str, conn: psycopg.Connection[Any], title: str, merged: Merged
) -> None:
    found: list[Merged] = []
    thread = threading.Thread(target=lambda: found.append(load(dsn, "acme", [opening("1", title)])))
    with psycopg.connect(dsn) as other:
        first = opening("1", "Baker")
        other.execute(
            "insert into opening_signals (source, external_id, title, content_hash) values ('acme', '1', %s, %s)",
            [first.title, first.content_hash],
        )
        thread.start()
        while not one(conn, "select count(*) from pg_locks where not granted"):
            thread.join(0.01)
            assert thread.is_alive(), "the merge did not wait"
        other.commit()
    thread.join()
    assert found == [merged]
    assert one(conn, "select title from opening_signals") == title


def test_a_merge_never_loops_over_the_openings_even_where_statistics_lie(
    dsn: str, conn: psycopg.Connection[Any]
) -> None:
    conn.execute("analyze opening_staging")
    conn.execute("analyze opening_signals")
    with conn.transaction():
        conn.execute(upsert._PLAN)
        plan = conn.execute(b"explain " + upsert._MERGE, {"request_id": uuid4(), "sources": ["acme"]}).fetchall()
    text = "\n".join(line for (line,) in plan)
    assert "Nested Loop" not in text, text
