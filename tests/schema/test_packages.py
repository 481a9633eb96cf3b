"""The mechanism's tables are made for everybody, the job's only where the job is declared; and the mechanism does not
know of the job."""

import re
from pathlib import Path

import psycopg
import pytest

from cronlease.cli.drift import drift
from cronlease.db.migration.migrate import create_for, create_if_absent, migrate
from cronlease.db.migration.packages import OURS, MigrationError, of_actions
from cronlease.db.migration.schema_files import schema_files
from tests.schema.calls import one
from tests.schema.rights import NOBODY, RUNNER

FUNCTIONS = Path(__file__).parents[2] / "functions"
JOB = "refresh_opening_signals"
RELATIONS = """
  select array_agg(relname::text order by relname)
  from pg_class
  where relnamespace = 'public'::regnamespace and relkind in ('r', 'v')
"""
ONLY_OURS = {file.name for file in schema_files("migrations", [OURS])}


def test_the_mechanism_says_nothing_of_openings() -> None:
    files = [path for path in (FUNCTIONS / "cronlease").rglob("*") if path.suffix in (".py", ".sql", ".toml")]
    assert len(files) > 100
    named = [path.name for path in files if re.search("opening", path.read_text("utf-8"), re.IGNORECASE)]
    assert named == []
    ours = (FUNCTIONS.parent / "schema" / OURS).rglob("*.sql")
    assert [path.name for path in ours if "opening" in path.read_text("utf-8").lower()] == []


@pytest.mark.thorough
def test_a_function_of_ones_own_gets_the_tables_of_the_mechanism_and_no_others(empty_dsn: str) -> None:
    assert set(create_if_absent(empty_dsn, packages=of_actions(["refresh_prices"]))) == ONLY_OURS

    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        assert [name for name in one(conn, RELATIONS) if "opening" in name] == []
        assert drift(conn, of_actions(["refresh_prices"])).sentences() == []
        assert "migration 0003_opening_signals is missing" in drift(conn, of_actions([JOB])).sentences()
    assert create_if_absent(empty_dsn, packages=(OURS,)) == []
    assert migrate(empty_dsn, packages=(OURS,), roles=True) == []


def test_the_job_gets_its_tables_beside_what_is_there_and_keeps_them_up(empty_dsn: str) -> None:
    migrate(empty_dsn, packages=(OURS,), roles=True)
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute("select public.ensure_schedule('refresh_prices')")

        made = create_for(empty_dsn, [JOB])

        assert made == [file.name for file in schema_files("migrations") if file.name not in ONLY_OURS]
        assert one(conn, "select function_name from public.refresh_schedule") == "refresh_prices"
        granted = "select has_table_privilege('cronlease_runner', 'public.opening_signals', 'insert')"
        assert one(conn, granted) is True
        conn.execute("drop view public.openings")
        # Run where the job is not declared, it is kept up all the same.
        assert migrate(empty_dsn, packages=(OURS,)) == []
        assert one(conn, "select to_regclass('public.openings') is not null")
        assert drift(conn, (OURS,)).sentences() == []
    assert create_for(empty_dsn, [JOB]) == []


@pytest.mark.thorough
def test_what_has_a_name_of_the_jobs_and_is_somebody_elses_is_refused(empty_dsn: str) -> None:
    migrate(empty_dsn, packages=(OURS,))
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute("create view public.openings as select 1 as one")
        with pytest.raises(MigrationError, match=r"view openings .* is not cronlease.s"):
            create_for(empty_dsn, [JOB])
        assert drift(conn, of_actions(["refresh_prices"])).sentences() == [], "nobody else minds"


@pytest.mark.thorough
def test_an_older_table_of_the_jobs_is_adopted_when_the_job_comes(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(
            "create table public.opening_signals"
            " (source text, external_id text, title text, url text, first_seen_at timestamptz,"
            " primary key (source, external_id));"
            " insert into public.opening_signals values ('acme', '1', 'Baker', null, '2026-01-01Z')"
        )
        assert set(create_if_absent(empty_dsn, packages=(OURS,))) == ONLY_OURS
        columns = "select count(*) from information_schema.columns where table_name = 'opening_signals'"
        assert one(conn, columns) == 5, "it is nothing to the mechanism"
        conn.execute("alter table public.opening_signals add constraint short check (title <> 'Engineer')")
        with pytest.raises(MigrationError, match="constraint short"):
            create_for(empty_dsn, [JOB])
        conn.execute("alter table public.opening_signals drop constraint short")

        create_for(empty_dsn, [JOB])

        assert one(conn, "select first_seen_at = '2026-01-01Z' from public.openings where title = 'Baker'")
        assert drift(conn).sentences() == []


def test_no_right_is_needed_where_the_tables_are_there(dsn: str) -> None:
    """A role that may only run asks whether they are, and never looks at the ledger."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create role cronlease_test_nobody login password 'x'")
        try:
            url = psycopg.conninfo.make_conninfo(dsn, user="cronlease_test_nobody", password="x")
            assert create_for(url, [JOB]) == []
        finally:
            conn.execute("drop role cronlease_test_nobody")


def test_what_the_rights_list_says_of_openings_is_the_jobs_own() -> None:
    granted = (FUNCTIONS.parent / "schema" / "opening_signals" / "roles.sql").read_text("utf-8")
    named = {name for text in [*RUNNER, *NOBODY] for name in re.findall(r"\b(opening_\w+|openings)\b", text)}
    assert {name for name in named if name.startswith("opening_")} <= set(re.findall(r"\w+", granted))
