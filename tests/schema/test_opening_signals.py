"""The openings table alone: first_seen_at that nobody can move, staging and merge."""

import asyncio
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import AsyncConnection

from cronlease.db.migration.migrate import migrate
from opening_signals.store import upsert
from opening_signals.store.lock import lock_sources
from opening_signals.store.upsert import Merged
from tests.schema.openings import load, load_on, one, opening, stage

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


def test_older_rows_are_filled_by_the_next_merge_and_keep_when_they_were_first_seen(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(OLDER.encode())
        migrate(empty_dsn)
        migrated_at = one(conn, "select first_seen_at from opening_signals where external_id = '2'")
        assert migrated_at is not None
        assert load(empty_dsn, "acme", [opening("1"), opening("2"), opening("3")]) == Merged(3, inserted=1, updated=0)
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
    assert (merged, merged.unchanged) == (Merged(fetched=3, inserted=1, updated=1, closed=1), 1)
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


def test_an_opening_that_returns_is_open_again_and_counts_as_changed(dsn: str, conn: psycopg.Connection[Any]) -> None:
    load(dsn, "acme", [opening("1")])
    load(dsn, "acme", [])
    assert one(conn, "select closed_at > first_seen_at and last_seen_at >= first_seen_at from opening_signals")
    assert load(dsn, "acme", [opening("1")]) == Merged(1, 0, 1)
    seen = "select closed_at, changed_at > first_seen_at, last_seen_at from opening_signals"
    assert one(conn, seen) == (None, True, None)
    load(dsn, "acme", [])
    assert load(dsn, "acme", [opening("1", "Cook")]) == Merged(1, 0, 1)
    assert one(conn, "select closed_at, changed_at is null, last_seen_at from opening_signals") == (None, False, None)


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
            await stage(each, ours, "whole", [opening("1")])
            await stage(each, ours, "torn", [opening("2")])
            await stage(each, theirs, "whole", [opening("3")])
            return await upsert.merge(each, ours, {"whole": 1})

    assert asyncio.run(work()) == Merged(1, 1, 0)
    assert one(conn, "select source, external_id from opening_signals") == ("whole", "1")
    staged = "select array_agg((request_id, source)::text order by source) from opening_staging"
    assert one(conn, staged) == [f"({ours},torn)", f"({theirs},whole)"]


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


def test_cleaning_up_deletes_what_dead_runs_left_and_nothing_of_live_ones(
    dsn: str, conn: psycopg.Connection[Any]
) -> None:
    ours = _open_run(conn, "ours", "running")
    live = _open_run(conn, "another", "running")
    dead, unknown = _open_run(conn, "ours", "abandoned"), uuid4()

    async def work() -> int:
        async with await AsyncConnection.connect(dsn, autocommit=True) as each:
            for request_id in (ours, live, dead, unknown):
                await stage(each, request_id, "acme", [opening("1")])
            return await upsert.delete_stale_staging(each, ours)

    assert asyncio.run(work()) == 4
    for table in ("opening_staging", "opening_staging_pages"):
        assert set(one(conn, f"select array_agg(request_id) from {table}")) == {ours, live}


def at_once(work: Callable[[int], None]) -> list[BaseException]:
    """Four threads doing it, each with its number; what the database refused them."""
    troubles: list[BaseException] = []

    def tried(number: int) -> None:
        try:
            work(number)
        except psycopg.Error as error:
            troubles.append(error)

    threads = [threading.Thread(target=tried, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return troubles


@pytest.mark.thorough
def test_simultaneous_writers_neither_deadlock_nor_lose_an_opening(dsn: str, conn: psycopg.Connection[Any]) -> None:
    """Each batch has a tenth of its openings twice, comes in any order, and closes what the others have just seen."""
    names = [str(number) for number in range(120)]

    async def write(writer: int) -> None:
        draw = random.Random(writer)
        async with await AsyncConnection.connect(dsn, autocommit=True) as each:
            for batch in range(60):
                mine = draw.sample(names, 90)
                await load_on(each, "acme", [opening(name, f"{writer} {batch}") for name in [*mine, *mine[:9]]])

    assert at_once(lambda writer: asyncio.run(write(writer))) == []
    assert one(conn, "select count(*) from opening_signals") == len(names)
    assert one(conn, "select count(*) from opening_signals where closed_at is null") == 90
    assert one(conn, "select count(*) from opening_staging") == 0
    assert one(conn, "select count(*) from opening_staging_pages") == 0


def test_writers_of_many_sources_take_them_in_one_order(dsn: str, conn: psycopg.Connection[Any]) -> None:
    names = [f"source {number}" for number in range(30)]

    async def take(writer: int) -> None:
        draw = random.Random(writer)
        async with await AsyncConnection.connect(dsn, autocommit=True) as each:
            for _ in range(40):
                async with each.transaction():
                    await lock_sources(each, draw.sample(names, 20))

    assert at_once(lambda writer: asyncio.run(take(writer))) == []
    assert one(conn, "select count(*) from opening_sources") == len(names)


def test_ten_reloads_of_ten_thousand_unchanged_openings_write_nothing(
    dsn: str, conn: psycopg.Connection[Any]
) -> None:
    openings = [opening(str(number)) for number in range(10_000)]
    load(dsn, "acme", openings)
    conn.execute("vacuum opening_signals")
    rows = "select (select md5(string_agg((ctid, xmin, xmax)::text, ' ' order by ctid)) from opening_signals)," + (
        " (select md5(string_agg((ctid, xmin, xmax)::text, ' ' order by ctid)) from opening_pages)"
    )
    before, start = one(conn, rows), one(conn, "select pg_current_wal_insert_lsn()")
    for _ in range(10):
        assert load(dsn, "acme", openings) == Merged(10_000, 0, 0)
    written = one(conn, f"select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{start}')")
    assert one(conn, rows) == before
    assert written < 100_000


def test_keys_of_any_letters_are_known_again(dsn: str, conn: psycopg.Connection[Any]) -> None:
    keys = ['a"b', "a\\b", "\\", '"', "{a,b}", "null", "a,b", "ä", "z", "Ω\U0001f600", "a b", "a\n\tx", "'", "%s"]
    openings = [opening(str(place))._replace(external_id=key) for place, key in enumerate(keys)]
    assert load(dsn, "acme", openings).inserted == len(keys)
    assert load(dsn, "acme", openings[::-1]) == Merged(len(keys), 0, 0)
    openings[5] = opening("5", "Cook")._replace(external_id=keys[5])
    assert load(dsn, "acme", openings) == Merged(len(keys), 0, 1)
    assert set(one(conn, "select array_agg(external_id) from opening_signals")) == set(keys)


def test_two_openings_that_swap_what_they_say_are_both_changed(dsn: str, conn: psycopg.Connection[Any]) -> None:
    """The hashes of a page are compared all at once, and still each with its own opening."""
    openings = [opening(str(number), f"Baker {number}") for number in range(4)]
    load(dsn, "acme", openings)
    swapped = [openings[1 - place]._replace(external_id=str(place)) for place in range(2)]
    assert load(dsn, "acme", [*swapped, *openings[2:]]) == Merged(4, 0, 2)
    assert one(conn, "select array_agg(title order by external_id) from opening_signals")[:2] == [
        "Baker 1",
        "Baker 0",
    ]


def test_a_page_that_is_the_same_but_for_one_stages_only_that_one(dsn: str, conn: psycopg.Connection[Any]) -> None:
    openings = [opening(str(number)) for number in range(500)]
    load(dsn, "acme", openings)

    async def work() -> None:
        async with await AsyncConnection.connect(dsn, autocommit=True) as each:
            await upsert.Staging(uuid4(), "acme").add(each, [*openings[:499], opening("499", "Cook")])
            await upsert.Staging(uuid4(), "acme").add(each, openings)

    asyncio.run(work())
    assert one(conn, "select array_agg(external_id) from opening_staging") == ["499"]
    assert one(conn, "select array_agg(differing order by differing) from opening_staging_pages") == [0, 1]
    assert one(conn, "select array_agg(cardinality(external_ids)) from opening_staging_pages") == [500, 500]


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
    for name in ("write_openings", "sources_in_sync", "close_and_reopen", "remember_pages"):
        with conn.transaction():
            conn.execute(upsert.QUERIES["set_planner"])
            params = {"request_id": uuid4(), "sources": ["acme"], "closing": ["acme"]}
            plan = conn.execute(b"explain " + upsert.QUERIES[name].encode(), params).fetchall()
        text = "\n".join(line for (line,) in plan)
        assert "Nested Loop" not in text, text
        assert "SubPlan" not in text, text
