"""Tables that somebody has changed since they were migrated: what differs is named, and migrate puts it back."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cronlease.cli.drift import drift
from cronlease.db.migration.migrate import create_if_absent, migrate, state
from cronlease.db.migration.packages import MigrationError
from cronlease.db.migration.schema_files import schema_files
from tests.conftest import Server
from tests.faults.profile import one_in
from tests.schema.calls import acquire, call, finish, one

# What somebody did -> what is said of it. All at once, too: none of them hides another.
PUT_BACK = {
    "drop index refresh_schedule_due": "index refresh_schedule_due of refresh_schedule is missing",
    "drop index refresh_runs_newest; create index refresh_runs_newest on refresh_runs (status)": (
        "index refresh_runs_newest of refresh_runs was changed"
    ),
    "alter table refresh_runs drop constraint refresh_runs_pkey": "request_id of refresh_runs is not unique",
    "alter table refresh_schedule drop constraint id_is_unique": "id of refresh_schedule is not unique",
    "alter table refresh_schedule drop constraint fence_not_negative": (
        "constraint fence_not_negative of refresh_schedule is missing"
    ),
    "alter table refresh_runs drop constraint status_is_known, add constraint status_is_known"
    " check (status in ('running', 'success'))": "constraint status_is_known of refresh_runs was changed",
    "alter table refresh_schedule add constraint known check (last_status <> 'partial')": (
        "known of refresh_schedule limits last_status: CHECK ((last_status <> 'partial'::text))"
    ),
    "drop trigger first_seen_at_never_changes on opening_signals": (
        "trigger first_seen_at_never_changes of opening_signals is missing"
    ),
    "alter table opening_signals disable trigger first_seen_at_is_set_by_the_database": (
        "trigger first_seen_at_is_set_by_the_database of opening_signals is not in force"
    ),
    "alter table refresh_schedule alter fence drop default": "column fence of refresh_schedule has another default",
    "alter table refresh_schedule alter run_count drop not null": "column run_count of refresh_schedule allows null",
    "alter table opening_signals alter title set not null": "column title of opening_signals allows no null",
    "alter table opening_sources alter etag type varchar(9)": (
        "column etag of opening_sources is character varying(9) instead of text"
    ),
    "alter table opening_pages set unlogged": "table opening_pages is unlogged, and a crash would empty it",
}
LEFT_ALONE = """
    alter table refresh_schedule add column note text, add column tenant text not null default 'a';
    create index by_note on refresh_schedule (note);
    create function touch() returns trigger language plpgsql as 'begin return new; end';
    create trigger touch before update on refresh_schedule for each row execute function touch();
    alter table refresh_schedule enable row level security;
    alter table refresh_schedule set (fillfactor = 50);
    comment on table refresh_schedule is 'mine'
"""


def found(conn: psycopg.Connection) -> list[str]:
    return drift(conn).sentences()


def works(conn: psycopg.Connection) -> bool:
    call(conn, "ensure_schedule", function_name="job")
    request = uuid4()
    claim = acquire(conn, request, force=True)
    return bool(claim.acquired and finish(conn, request, claim.fence, "partial").status == "partial")


@pytest.mark.thorough
def test_each_change_is_named_and_migrate_puts_it_back(dsn: str, conn: psycopg.Connection) -> None:
    assert found(conn) == []
    for change, said in PUT_BACK.items():
        conn.execute(change)
        assert len([line for line in found(conn) if line.startswith(said)]) == 1, (change, found(conn))
    assert len(found(conn)) == len(PUT_BACK)
    assert drift(conn).fix.startswith("run `cronlease migrate`")

    notes: list[str] = []
    assert migrate(dsn, note=notes.append) == []

    assert len([note for note in notes if note.startswith("repaired: ")]) == len(PUT_BACK)
    assert found(conn) == []
    assert works(conn)


@pytest.mark.thorough
def test_the_script_of_a_dry_run_puts_it_back_as_well(conn: psycopg.Connection) -> None:
    for change in PUT_BACK:
        conn.execute(change)
    conn.execute(drift(conn).script())
    assert found(conn) == []


@pytest.mark.thorough
def test_what_is_somebody_elses_and_in_nobodys_way_is_left_alone(dsn: str, conn: psycopg.Connection) -> None:
    conn.execute(LEFT_ALONE)
    assert found(conn) == []
    migrate(dsn)
    assert one(conn, "select count(*) from pg_trigger where tgname = 'touch'") == 1
    assert works(conn)


def test_a_column_that_is_gone_is_named_with_the_statement_that_makes_an_empty_one(
    dsn: str, conn: psycopg.Connection
) -> None:
    conn.execute("alter table refresh_schedule drop column every cascade")
    refused = "migrate refuses: column every of refresh_schedule is missing, with"
    (sentence,) = [line.removeprefix("migrate refuses: ") for line in found(conn) if line.startswith(refused)]
    with pytest.raises(MigrationError) as caught:
        migrate(dsn)
    assert str(caught.value) == sentence
    conn.execute(sentence.split("`")[1])
    migrate(dsn)
    assert found(conn) == []
    assert works(conn)


@pytest.mark.thorough
def test_a_rule_that_somebody_added_is_named_and_stops_no_upgrade(dsn: str, conn: psycopg.Connection) -> None:
    conn.execute("alter table refresh_runs add constraint quick check (fence < 3)")
    conn.execute("create unique index one on refresh_runs (status)")
    sentences = found(conn)
    assert [line.partition(":")[0] for line in sentences] == [
        "constraint quick of refresh_runs may refuse what we write",
        "index one of refresh_runs forbids what we write",
    ]
    notes: list[str] = []
    migrate(dsn, note=notes.append)
    assert notes[: len(sentences)] == sentences
    for sentence in sentences:
        conn.execute(sentence.split("`")[1])
    assert found(conn) == []


@pytest.mark.thorough
def test_a_database_that_lost_its_ledger_gets_it_back(dsn: str, conn: psycopg.Connection) -> None:
    assert works(conn)
    conn.execute("drop table cronlease_migrations")
    assert state(conn) == "partial"
    with pytest.raises(MigrationError, match="part of the schema is missing"):
        create_if_absent(dsn)

    applied = migrate(dsn)

    assert "0000_cronlease_migrations" in applied
    assert not {"0001_refresh_schedule", "0002_refresh_runs", "0004_opening_sources"} & set(applied)
    recorded = "select array_agg(name order by name) from cronlease_migrations"
    assert one(conn, recorded) == sorted(file.name for file in schema_files("migrations"))
    assert one(conn, "select count(*) from refresh_runs") == 1
    assert found(conn) == []


@pytest.fixture
def stranger(server: Server) -> Iterator[str]:
    """A role to which its owner gives whatever he makes. Name it before the database, so that it is dropped after."""
    name = f"cronlease_test_{uuid4().hex[:12]}"
    with psycopg.connect(server.admin, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login password 'secret'").format(sql.Identifier(name)))
        yield name
        admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


THEIRS = """
    select relname::text from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'v') and
      has_table_privilege(%(role)s, oid, 'select, insert, update, delete, truncate, references, trigger')
    union all
    select relname::text from pg_class
    where relnamespace = 'public'::regnamespace and relkind = 'S' and
      case when relkind = 'S' then has_sequence_privilege(%(role)s, oid, 'usage, select, update') end
    union all
    select proname::text from pg_proc
    where pronamespace = 'public'::regnamespace and has_function_privilege(%(role)s, oid, 'execute')
    order by 1
"""


@pytest.mark.parametrize("how", one_in(3, ["migrate", "dry run", "older"]))
def test_nothing_of_ours_is_given_away_by_default_privileges(stranger: str, empty_dsn: str, how: str) -> None:
    role = sql.Identifier(stranger)
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        if how == "older":
            conn.execute("create table refresh_schedule (function_name text primary key)")
        for kind in ("tables", "functions", "sequences"):
            give = "alter default privileges in schema public grant all on {} to {}"
            conn.execute(sql.SQL(give).format(sql.SQL(kind), role))
        if how == "dry run":
            conn.execute(drift(conn).script())
        else:
            migrate(empty_dsn)
        assert conn.execute(THEIRS, {"role": stranger}).fetchall() == []

        # What the owner gives on purpose stays, also where the thing is made anew.
        conn.execute(sql.SQL("grant select on refresh_status, refresh_runs to {}").format(role))
        conn.execute("drop function resume_refresh, unlock_refresh; drop view live_runs")
        conn.execute("create function resume_refresh(text) returns integer language sql as 'select 1'")
        conn.execute(sql.SQL("revoke all on function resume_refresh from {}").format(role))
        migrate(empty_dsn)
        assert conn.execute(THEIRS, {"role": stranger}).fetchall() == [("refresh_runs",), ("refresh_status",)]
        conn.execute(sql.SQL("drop owned by {}").format(role))


def test_a_role_that_may_make_no_temporary_tables_can_still_migrate_what_is_ours(stranger: str, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        database, role = sql.Identifier(conn.info.dbname), sql.Identifier(stranger)
        conn.execute(sql.SQL("revoke temporary on database {} from public").format(database))
        conn.execute(sql.SQL("grant create on schema public to {}").format(role))
        conn.execute(sql.SQL("grant {} to current_user").format(role))
        for (text,) in conn.execute(
            """
            select format('alter table %I owner to ', relname) from pg_class
            where relnamespace = 'public'::regnamespace and relkind in ('r', 'v')
            union all
            select format('alter function %s owner to ', oid::regprocedure) from pg_proc
            where pronamespace = 'public'::regnamespace
            """
        ).fetchall():
            conn.execute(sql.SQL(text).format() + role)
        notes: list[str] = []
        assert migrate(make_conninfo(dsn, user=stranger, password="secret"), note=notes.append) == []
        assert [note for note in notes if note.startswith("the tables were not compared: permission denied")]
        conn.execute(sql.SQL("drop owned by {} cascade").format(role))
