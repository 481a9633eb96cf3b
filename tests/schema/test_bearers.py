"""Functions and views of somebody else that have a name of ours: refused in a sentence, never dropped or replaced."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cronlease.cli.drift import drift
from cronlease.db.migration.migrate import create_if_absent, migrate
from cronlease.db.migration.packages import MigrationError, came_with, installed
from cronlease.db.migration.schema_files import functions_and_views, schema_files
from tests.conftest import Server
from tests.schema.calls import one
from tests.schema.older_tables import PLAIN

pytestmark = pytest.mark.thorough

ALL = [file.name for file in schema_files("migrations")]
FOREIGN = [
    "create view public.openings as select 1 as a",
    "create view public.refresh_status as select 1 as a",
    "create materialized view public.live_runs as select 1 as a",
    "create table public.refresh_status (a int)",
    "create function public.is_band(text) returns int language sql as 'select 1'",
    "create function public.unlock_refresh(a text, b text, c text, d text) returns int language sql as 'select 1'",
    "create function public.acquire_refresh_lock(a int, b int) returns text language sql as 'select null::text'",
    "create function public.finish_refresh_run(text, text) returns int language sql as 'select 1'",
    "create function public.release_refresh_lock(text) returns void language sql as ''",
    "create procedure public.pause_refresh() language sql as ''",
    "create table public.opening_staging (a int)",
    "create table public.cronlease_migrations (version int)",
]
OBJECTS = """
    select oid, xmin::text, relname::text from pg_class where relnamespace = 'public'::regnamespace
    union all
    select oid, xmin::text, proname::text from pg_proc where pronamespace = 'public'::regnamespace
    order by 1
"""


def objects(conn: psycopg.Connection) -> list[tuple[object, ...]]:
    return conn.execute(OBJECTS).fetchall()


@pytest.mark.parametrize("making", FOREIGN, ids=lambda making: " ".join(making.split("(")[0].split()[1:3]))
def test_what_others_made_under_a_name_of_ours_is_left_alone_until_a_person_moves_it(
    making: str, empty_dsn: str
) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(making)
        before = objects(conn)
        for act in (create_if_absent, migrate):
            with pytest.raises(
                MigrationError, match=r"not (ours|cronlease's): leave it and set CRONLEASE_SCHEMA"
            ) as caught:
                act(empty_dsn)
            assert objects(conn) == before
        conn.execute(str(caught.value).split("`")[1])
        assert migrate(empty_dsn) == ALL
        assert {oid for oid, *_ in before} <= {oid for oid, *_ in objects(conn)}


def test_a_check_names_everything_of_others_and_does_not_advise_to_replace_it(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(f"{FOREIGN[0]}; {FOREIGN[4]}")
        behind = drift(conn)
    assert len(behind.refused) == 2
    assert not {"openings", "is_band"} & {each.file.name for each in behind.differences}
    assert "cronlease migrate" not in behind.fix


def test_a_view_that_calls_the_older_function_is_named(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(PLAIN)
        conn.execute("create view public.mine as select public.acquire_refresh_lock('a', 'b', 1)")
        with pytest.raises(MigrationError, match=r"view mine calls the older .* with `drop view public.mine`"):
            migrate(empty_dsn)
        conn.execute("drop view public.mine")
    assert migrate(empty_dsn) == ALL


def test_an_upgrade_of_version_0_1_refuses_what_others_made_under_a_name_that_is_new(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute((Path(__file__).parent / "version_0_1.sql").read_text("utf-8"))
        conn.execute("create function public.refresh_lock_key(text) returns int language sql as 'select 1'")
        with pytest.raises(MigrationError, match=r"function public\.refresh_lock_key\(text\)"):
            migrate(empty_dsn)
        conn.execute("drop function public.refresh_lock_key")
    assert migrate(empty_dsn)


@pytest.fixture
def stranger(server: Server) -> Iterator[str]:
    """A role without any right. Name it before the database, so that it is dropped after."""
    name = f"stranger_{uuid4().hex[:12]}"
    with psycopg.connect(server.admin, autocommit=True) as admin:
        admin.execute(f"create role {name}")
        yield name
        admin.execute(f"drop role {name}")


def test_a_right_on_an_older_function_is_not_one_on_ours(stranger: str, empty_dsn: str) -> None:
    """Ours acts with the rights of its owner; the older one acted with the caller's."""
    said: list[str] = []
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(f"alter default privileges in schema public grant execute on functions to {stranger}")
        conn.execute(PLAIN)
        conn.execute(
            "create function public.release_refresh_lock(p_function_name text, p_request_id uuid) returns boolean"
            " language sql as 'select true'"
        )
        migrate(empty_dsn, note=said.append)
        text = (
            "select array_agg(proname::text) from pg_proc where pronamespace = 'public'::regnamespace"
            " and proname ~ 'refresh' and has_function_privilege(%s, oid, 'execute')"
        )
        assert one(conn, text, [stranger]) is None
        conn.execute(f"drop owned by {stranger}")
    for name in ("acquire_refresh_lock", "release_refresh_lock"):
        assert any(f"{stranger} may no longer execute {name}" in line for line in said)


def test_a_table_of_another_role_is_named_with_its_owner(stranger: str, empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(PLAIN)
        conn.execute(
            f"grant all on schema public to {stranger}; grant temporary on database {conn.info.dbname} to {stranger}"
        )
        as_stranger = make_conninfo(empty_dsn, options=f"-c role={stranger}")
        for _ in range(3):
            with pytest.raises(MigrationError, match="belongs to the role postgres") as caught:
                migrate(as_stranger)
            conn.execute(str(caught.value).split("`")[1])
        assert migrate(as_stranger) == ALL
        conn.execute(f"drop owned by {stranger} cascade")


def test_migrate_reports_a_table_in_another_schema_of_the_path_and_a_missing_schema(empty_dsn: str) -> None:
    said: list[str] = []
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute("create schema app; create table app.refresh_schedule (function_name text)")
        conn.execute(f"alter database {conn.info.dbname} set search_path = app, public")
        conn.execute("drop schema public")
        with pytest.raises(MigrationError, match=r"no schema public.*`create schema public`"):
            migrate(empty_dsn)
        conn.execute("create schema public")
    migrate(empty_dsn, note=said.append)
    assert any("`alter table app.refresh_schedule set schema public`" in line for line in said)


def test_every_name_that_version_0_1_does_not_have_is_said_to_have_come_later() -> None:
    dumped = (Path(__file__).parent / "version_0_1.sql").read_text("utf-8")
    known = set(re.findall(r"^CREATE (?:FUNCTION|VIEW) public\.(\w+)", dumped, re.MULTILINE))
    later = {name for package in installed() for names in came_with(package).values() for name in names}
    assert {file.name for file in functions_and_views()} - known == later
