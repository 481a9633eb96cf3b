"""migrate and create_if_absent: from nothing, twice, many at the same time, refused, and with no more rights than
needed."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cronlease.db.migration import migrate as migrate_module
from cronlease.db.migration import schema_files as schema_files_module
from cronlease.db.migration.migrate import create_if_absent, migrate
from cronlease.db.migration.packages import MigrationError
from cronlease.db.migration.schema_files import Packages, SchemaFile, schema_files
from tests.conftest import Server
from tests.schema.calls import acquire, call, finish, one

ALL = [file.name for file in schema_files("migrations")]
PROCESSES = 20


@pytest.fixture
def role(server: Server) -> Iterator[str]:
    """A role that may log in and nothing else. Name it before the database, so that it is dropped after."""
    name = f"cronlease_test_{uuid4().hex[:12]}"
    with psycopg.connect(server.admin, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login password 'secret'").format(sql.Identifier(name)))
        yield name
        admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def serve(files: Callable[..., list[SchemaFile]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts other files into the place of schema/."""
    for module in (migrate_module, schema_files_module):
        monkeypatch.setattr(module, "schema_files", files)


def state(dsn: str) -> dict[str, list[Any]]:
    """All that a migration could change, with the version of each catalog row."""
    queries = {
        "relations": "select oid, xmin::text, relname, relacl::text from pg_class where relnamespace = {}",
        "functions": "select oid, xmin::text, proname, proacl::text from pg_proc where pronamespace = {}",
        "constraints": "select oid, xmin::text, conname from pg_constraint where connamespace = {}",
    }
    with psycopg.connect(dsn) as conn:
        found = {
            kind: conn.execute(query.format("'public'::regnamespace") + " order by oid").fetchall()
            for kind, query in queries.items()
        }
        if one(conn, "select to_regclass('public.cronlease_migrations') is not null"):
            found["applied"] = conn.execute("select * from public.cronlease_migrations order by name").fetchall()
    return found


def works(dsn: str) -> bool:
    """A schedule can be made, claimed and finished."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        call(conn, "ensure_schedule", function_name="job")
        request = uuid4()
        claim = acquire(conn, request)
        return bool(claim.acquired and finish(conn, request, claim.fence).status == "success")


def test_an_empty_database_is_migrated_in_order_and_it_is_recorded(empty_dsn: str) -> None:
    assert migrate(empty_dsn) == ALL

    with psycopg.connect(empty_dsn) as conn:
        recorded = conn.execute("select name, hash, package from public.cronlease_migrations").fetchall()
    assert sorted(recorded) == sorted((file.name, file.hash, file.package) for file in schema_files("migrations"))
    assert works(empty_dsn)


def test_migrating_twice_applies_nothing_the_second_time(empty_dsn: str) -> None:
    migrate(empty_dsn)
    before = state(empty_dsn)

    assert migrate(empty_dsn) == []

    after = state(empty_dsn)
    assert after["applied"] == before["applied"]
    assert after["constraints"] == before["constraints"]
    assert {name for _, _, name, _ in after["functions"]} == {name for _, _, name, _ in before["functions"]}
    assert works(empty_dsn)


@pytest.mark.thorough
def test_twenty_processes_may_migrate_at_the_same_time(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each is forked from one that has imported all of it, which needs the path in its environment.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["pytest", "cronlease.db.migration.migrate"])
    start = processes.Barrier(PROCESSES)
    with ProcessPoolExecutor(PROCESSES, processes, initializer=start.wait, initargs=(30,)) as pool:
        asked = [pool.submit(create_if_absent if number % 2 else migrate, empty_dsn) for number in range(PROCESSES)]
        applied = [future.result() for future in asked]

    assert sorted(applied) == [[]] * (PROCESSES - 1) + [ALL], "one did it all, the others found it done"
    with psycopg.connect(empty_dsn) as conn:
        assert one(conn, "select array_agg(name order by name) from public.cronlease_migrations") == sorted(ALL)
    assert works(empty_dsn)


def test_a_migration_that_changed_after_it_was_applied_is_refused_by_name(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(dsn)

    def changed(folder: str, packages: Packages = None) -> list[SchemaFile]:
        files = schema_files(folder, packages)
        if folder == "migrations":
            files.insert(1, SchemaFile("0000_one_that_came_before", "create table public.must_not_stay ()"))
            files[-1] = SchemaFile(files[-1].name, files[-1].text + "-- one more word\n")
        return files

    serve(changed, monkeypatch)

    with pytest.raises(MigrationError, match=f"migration {ALL[-1]} was changed after it was applied"):
        migrate(dsn)

    assert state(dsn) == before


def test_a_migration_that_fails_changes_nothing_and_says_why(
    dsn: str, empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(folder: str, packages: Packages = None) -> list[SchemaFile]:
        files = schema_files(folder, packages)
        if folder == "migrations":
            files.append(SchemaFile("9999_broken", "create table public.must_not_stay (); select 1/0"))
        return files

    serve(failing, monkeypatch)
    for url in (dsn, empty_dsn):
        before = state(url)
        with pytest.raises(MigrationError, match="division by zero"):
            migrate(url)
        assert state(url) == before


def test_a_new_migration_is_applied_to_a_database_that_has_the_others(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grown(folder: str, packages: Packages = None) -> list[SchemaFile]:
        files = schema_files(folder, packages)
        if folder == "migrations":
            files.append(SchemaFile("9999_more", "create table public.more ()"))
        return files

    serve(grown, monkeypatch)

    assert migrate(dsn) == ["9999_more"]
    assert migrate(dsn) == []


def test_the_hash_of_a_migration_does_not_depend_on_line_ends(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in schema_files("migrations"):
        text = file.text.replace("\n", "\r\n").encode()
        (tmp_path / file.package / "migrations").mkdir(parents=True, exist_ok=True)
        (tmp_path / file.package / "migrations" / f"{file.name}.sql").write_bytes(text)
    expected = [file.hash for file in schema_files("migrations")]

    monkeypatch.setattr(schema_files_module, "folder_of", tmp_path.joinpath)

    assert [file.hash for file in schema_files("migrations")] == expected


@pytest.mark.thorough
def test_migrate_needs_no_superuser(role: str, empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        database = sql.Identifier(admin.info.dbname)
        admin.execute(sql.SQL("alter database {} owner to {}").format(database, sql.Identifier(role)))
        admin.execute(sql.SQL("grant create on schema public to {}").format(sql.Identifier(role)))
    url = make_conninfo(empty_dsn, user=role, password="secret")

    assert migrate(url) == ALL
    assert migrate(url) == []
    assert works(url)


def test_a_role_without_rights_is_told_so_in_one_sentence_and_changes_nothing(
    role: str, empty_dsn: str, dsn: str
) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        admin.execute("revoke create on schema public from public")
    for url in (empty_dsn, dsn):
        before = state(url)
        for act in (migrate, create_if_absent):
            if act is create_if_absent and url == dsn:
                continue
            with pytest.raises(MigrationError, match="permission denied") as caught:
                act(make_conninfo(url, user=role, password="secret"))
            assert len(str(caught.value).splitlines()) == 1, str(caught.value)
            assert "secret" not in str(caught.value)
        assert state(url) == before


def test_a_first_run_changes_nothing_on_a_complete_database(role: str, dsn: str) -> None:
    before = state(dsn)

    assert create_if_absent(dsn) == []
    assert create_if_absent(make_conninfo(dsn, user=role, password="secret")) == [], "whoever asks"

    assert state(dsn) == before


@pytest.mark.parametrize(
    "missing",
    [
        "table public.cronlease_migrations",
        "function public.acquire_refresh_lock",
        "function public.acquire_refresh_lock; drop table public.cronlease_migrations, public.refresh_runs cascade",
    ],
)
def test_a_first_run_leaves_a_half_made_schema_to_a_person(dsn: str, missing: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"drop {missing}")
    before = state(dsn)

    with pytest.raises(MigrationError, match="part of the schema is missing"):
        create_if_absent(dsn)

    assert state(dsn) == before


def test_migrate_puts_back_a_function_that_is_missing(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("drop function public.acquire_refresh_lock; drop view public.refresh_status")

    assert migrate(dsn) == []
    assert works(dsn)


def test_a_server_that_cannot_be_reached_is_one_error_without_the_password() -> None:
    with pytest.raises(MigrationError) as caught:
        migrate("postgresql://somebody:secret@127.0.0.1:1/nothing")
    assert "secret" not in str(caught.value)


@pytest.mark.thorough
def test_a_table_that_is_gone_is_named_and_not_called_up_to_date(dsn: str, conn: psycopg.Connection) -> None:
    conn.execute("drop table public.refresh_runs cascade")
    with pytest.raises(MigrationError, match=r"table public\.refresh_runs is gone although 0002_refresh_runs"):
        migrate(dsn)
    # The one that makes the table, and those that add columns to it.
    conn.execute("delete from public.cronlease_migrations where name ~ '^000[28]|^0014'")
    assert migrate(dsn) == ["0002_refresh_runs", "0008_overdue_runs", "0014_slots_of_runs"]
