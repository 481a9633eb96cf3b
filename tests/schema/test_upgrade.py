"""An older database grows into ours in place: rows kept, and no different from one made from nothing."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from cronlease.db.migration.migrate import create_if_absent, migrate
from cronlease.db.migration.schema_files import schema_files
from tests.schema.calls import acquire, finish, one, row

OLDER = [Path(__file__).parent / name for name in ("older_schema.sql", "older_schema_without_zones.sql")]
NAME = "refresh_opening_signals"

SHAPES = {
    "columns": """
        select table_name, column_name, data_type, is_nullable, column_default, is_identity, identity_generation
        from information_schema.columns
        where table_schema = 'public'
    """,
    "constraints": """
        select conrelid::regclass::text, conname, pg_get_constraintdef(oid)
        from pg_constraint
        where connamespace = 'public'::regnamespace
          and contype <> 'n'
    """,
    "indexes": "select tablename, indexname, indexdef from pg_indexes where schemaname = 'public'",
    "triggers": """
        select tgrelid::regclass::text, tgname, pg_get_triggerdef(oid)
        from pg_trigger
        where not tgisinternal
    """,
    "functions": """
        select proname, pg_get_function_identity_arguments(oid), md5(pg_get_functiondef(oid))
        from pg_proc
        where pronamespace = 'public'::regnamespace
    """,
    "views": "select viewname, definition from pg_views where schemaname = 'public'",
    "tables": """
        select relname, relkind, relpersistence
        from pg_class
        where relnamespace = 'public'::regnamespace
    """,
}


def shape(conn: psycopg.Connection, kind: str) -> set[tuple[Any, ...]]:
    return set(conn.execute(SHAPES[kind]).fetchall())


@pytest.fixture(params=OLDER, ids=lambda path: path.stem)
def older_dsn(request: pytest.FixtureRequest, empty_dsn: str) -> str:
    """An older database with rows in it, in a zone in which a time without one means another moment."""
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(f"alter database {conn.info.dbname} set timezone = 'Asia/Tokyo'")
        conn.execute(request.param.read_text("utf-8"))
    return empty_dsn


@pytest.mark.thorough
def test_an_older_database_upgraded_equals_one_made_from_nothing(older_dsn: str, conn: psycopg.Connection) -> None:
    migrate(older_dsn)

    with psycopg.connect(older_dsn) as upgraded:
        upgraded.execute("set timezone = 'UTC'")
        for kind in SHAPES:
            assert shape(upgraded, kind) == shape(conn, kind), kind
            assert shape(conn, kind), f"nothing was compared: {kind}"


def test_an_older_database_keeps_its_rows_and_works(older_dsn: str) -> None:
    assert migrate(older_dsn) == [file.name for file in schema_files("migrations")]

    with psycopg.connect(older_dsn, autocommit=True) as conn:
        conn.execute("set timezone = 'UTC'")
        assert one(conn, "select array_agg(function_name order by function_name) from public.refresh_schedule") == [
            "never_ran",
            NAME,
        ]
        kept = row(conn, NAME)
        assert {name: value for name, value in kept.items() if value is not None and name != "id"} == {
            "function_name": NAME,
            "next_run_at": "2026-01-02T03:04:05+00:00",
            "last_run_at": "2026-01-02T02:54:05+00:00",
            "last_status": "ok",
            "attempt": 0,
            "told": [],
            "action": NAME,
            "args": {},
            "once": False,
            "failures": 0,
            "abandoned": 0,
            "run_count": 0,
            "fence": 0,
        }
        assert one(conn, "select count(distinct id) from public.refresh_schedule") == 2
        signals = conn.execute(
            "select external_id, coalesce(title, ''), first_seen_at::text from public.opening_signals order by 1"
        )
        assert signals.fetchall() == [
            ("1", "Engineer", "2025-12-31 23:59:59.123456+00"),
            ("2", "", "2026-01-01 00:00:00+00"),
        ]

        for name in (NAME, "never_ran"):
            request = uuid4()
            claim = acquire(conn, request, name)
            assert (claim.acquired, claim.fence, claim.action) == (True, 1, name)
            assert finish(conn, request, claim.fence, function_name=name).status == "success"
        conn.execute("insert into public.opening_signals (source, external_id) values ('acme', '3')")


def test_a_first_run_upgrades_an_older_database_by_itself(older_dsn: str) -> None:
    assert create_if_absent(older_dsn) == [file.name for file in schema_files("migrations")]
    assert create_if_absent(older_dsn) == []

    with psycopg.connect(older_dsn, autocommit=True) as conn:
        assert acquire(conn, uuid4(), NAME).acquired
