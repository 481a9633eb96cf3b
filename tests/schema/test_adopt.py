"""A database that was there before is adopted whole, or refused in one sentence and left as it was."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from cronlease.cli.drift import drift
from cronlease.db.migration.migrate import create_if_absent, migrate, rehearse
from cronlease.db.migration.packages import MigrationError
from cronlease.db.migration.schema_files import schema_files
from tests.faults.profile import one_in
from tests.schema.calls import acquire, call, finish, make_due, one
from tests.schema.older_tables import ADOPTED, PLAIN, REFUSED

pytestmark = pytest.mark.thorough

ALL = [file.name for file in schema_files("migrations")]
NAME = "refresh_opening_signals"
OWN_TEXT = """
    select 'columns', attrelid::regclass::text || '.' || attname, format_type(atttypid, atttypmod) || attnotnull
    from pg_attribute where attrelid::regclass::text in ('refresh_schedule', 'opening_signals') and attnum > 0
    union all
    select 'relations', relname::text, concat(oid, relkind, relfilenode, relacl) from pg_class
    where relnamespace = 'public'::regnamespace
    union all
    select 'constraints', conname::text, pg_get_constraintdef(oid) from pg_constraint
    where connamespace = 'public'::regnamespace
    union all
    select 'functions', proname::text, md5(prosrc) || oid from pg_proc where pronamespace = 'public'::regnamespace
    union all
    select 'triggers', tgname::text, pg_get_triggerdef(oid) || tgenabled::text from pg_trigger
    union all
    select 'sequences', sequencename::text, last_value::text from pg_sequences where schemaname = 'public'
    order by 1, 2, 3
"""


def older(dsn: str, changes: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(PLAIN)
        conn.execute(changes or "select 1")


def everything(dsn: str) -> list[Any]:
    """The catalogue and the rows, with where each lies: another answer after any write."""
    with psycopg.connect(dsn) as conn:
        found = conn.execute(OWN_TEXT).fetchall()
        for table in ("refresh_schedule", "opening_signals"):
            if one(conn, "select count(*) from pg_class where relname = %s and relkind = 'r'", [table]):
                found += conn.execute(f"select ctid::text, xmin::text, t::text from public.{table} t").fetchall()
    return found


def rows(conn: psycopg.Connection, table: str, columns: str) -> list[Any]:
    if one(conn, "select to_regclass(%s) is null", [f"public.{table}"]):
        return []
    return conn.execute(f"select {columns} from public.{table} order by 1, 2").fetchall()


def one_winner(dsn: str, name: str) -> bool:
    """Of several callers at once, each on its own connection, exactly one gets the lease."""

    def ask(_: int) -> bool:
        with psycopg.connect(dsn, autocommit=True) as conn:
            return bool(acquire(conn, uuid4(), name).acquired)

    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(ask, range(4))) == 1


@pytest.mark.parametrize("case", one_in(8, ADOPTED))
def test_an_older_database_is_adopted_with_every_row_and_runs(case: str, empty_dsn: str) -> None:
    older(empty_dsn, ADOPTED[case])
    with psycopg.connect(empty_dsn) as conn:
        names = [name for (name, _) in rows(conn, "refresh_schedule", "function_name::text, 1")]
        openings = rows(conn, "opening_signals", "external_id, title, url, first_seen_at::text")

    assert create_if_absent(empty_dsn) == ALL, "a first hit adopts it by itself"

    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        assert drift(conn).sentences() == []
        assert [name for (name, _) in rows(conn, "refresh_schedule", "function_name, 1")] == names
        kept = rows(conn, "opening_signals", "external_id, title, url, first_seen_at::text")
        assert [row[:3] for row in kept] == [row[:3] for row in openings]
        assert all(was in (None, now) for (*_, was), (*_, now) in zip(openings, kept, strict=True))
        for name in names or [NAME]:
            call(conn, "ensure_schedule", function_name=name)
            for status in ("success", "failed"):
                make_due(conn, name)
                request = uuid4()
                claim = acquire(conn, request, name)
                assert claim.acquired, claim.reason
                assert not acquire(conn, uuid4(), name).acquired
                assert finish(conn, request, claim.fence, status, function_name=name).status == status
        make_due(conn, NAME)
        with pytest.raises(psycopg.errors.UniqueViolation):
            conn.execute(
                "insert into public.refresh_schedule (function_name, action) values (%s, 'x')", [(names or [NAME])[0]]
            )
    assert one_winner(empty_dsn, (names or [NAME])[0])


@pytest.mark.parametrize("case", one_in(8, REFUSED))
def test_what_cannot_be_adopted_is_refused_and_left_as_it_was_and_the_sentence_helps(
    case: str, empty_dsn: str
) -> None:
    changes, said, *by_hand = REFUSED[case]
    older(empty_dsn, changes)
    before = everything(empty_dsn)

    for act in (create_if_absent, rehearse, migrate):
        with pytest.raises(MigrationError) as caught:
            act(empty_dsn)
        assert len(str(caught.value).splitlines()) == 1
        assert everything(empty_dsn) == before
    assert said in str(caught.value)
    fixes = by_hand or re.findall("change that with `(.+?)`", str(caught.value))
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(fixes[0].replace("YOURS", "name"))
    assert migrate(empty_dsn) == ALL
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        call(conn, "ensure_schedule", function_name=NAME)
        assert acquire(conn, uuid4(), NAME, force=True).acquired


def test_migrate_says_that_the_function_now_answers_a_row(empty_dsn: str) -> None:
    older(empty_dsn, "")
    said: list[str] = []
    migrate(empty_dsn, note=said.append)
    assert [line for line in said if ".acquired" in line] == [
        "acquire_refresh_lock now answers a row, not a boolean: clients read `.acquired`; its arguments were"
        " (p_function_name, p_locked_by, p_seconds) and are (p_function_name, p_request_id)"
    ]
    said.clear()
    migrate(empty_dsn, note=said.append)
    assert [line for line in said if ".acquired" in line] == []


def test_a_time_without_a_zone_is_read_in_the_zone_that_sessions_have(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the zone that our own client asks for."""
    said: list[str] = []
    monkeypatch.setenv("PGTZ", "America/New_York")
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(PLAIN)
        conn.execute(f"alter database {conn.info.dbname} set timezone = 'Asia/Tokyo'")
        conn.execute(
            "alter table public.refresh_schedule alter next_run_at type timestamp"
            " using next_run_at at time zone 'Asia/Tokyo',"
            " add made_at timestamp default '2026-01-01 09:00'"
        )
        migrate(empty_dsn, note=said.append)
        text = f"select {{}} from public.refresh_schedule where function_name = '{NAME}'"
        assert one(conn, text.format("next_run_at = '2026-01-02 03:04:05+00'"))
        assert one(conn, text.format("made_at = '2026-01-01 00:00:00+00'"))
    assert sum("Asia/Tokyo" in line for line in said) == 2


def test_of_twins_the_one_that_holds_the_lock_stays(empty_dsn: str) -> None:
    changes, _ = REFUSED["twins of which one is locked"]
    older(empty_dsn, changes)
    with pytest.raises(MigrationError) as caught:
        migrate(empty_dsn)
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(str(caught.value).split("`")[1])
        assert one(conn, "select locked_by from public.refresh_schedule where function_name = %s", [NAME]) == "host"
