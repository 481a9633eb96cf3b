"""Least privilege is real (P25): each role may do exactly what rights.py says."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from cronlease.db.migration.migrate import migrate
from cronlease.db.migration.packages import MigrationError
from cronlease.db.migration.schema_files import SchemaFile
from tests.conftest import Server
from tests.faults.profile import one_in
from tests.schema.calls import acquire, finish, one, renew, schedule
from tests.schema.rights import ANYBODY, HELD, NOBODY, READER, RUNNER, RUNNER_AND_READER

STATEMENTS = (*ANYBODY, *RUNNER, *READER, *RUNNER_AND_READER, *NOBODY)
DOCUMENTED = {
    "cronlease_runner": {*ANYBODY, *RUNNER, *RUNNER_AND_READER},
    "cronlease_reader": {*ANYBODY, *READER, *RUNNER_AND_READER},
    "nobody of ours": set(ANYBODY),
}
OURS = """
  select array_agg(name)
  from (
    select p.proname::text from pg_proc p where p.pronamespace = 'public'::regnamespace
    union
    select c.relname::text from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v')
  ) ours (name)
"""
# It answers as the real ones do, and notes whose rights it had.
HOSTILE = """
  create schema evil;
  create table evil.ran (name text);
  grant usage on schema evil to public;
  grant insert on evil.ran to public;

  create function evil.clock_timestamp() returns timestamptz language sql volatile
  begin atomic insert into evil.ran values (current_user); select pg_catalog.clock_timestamp(); end;
  create function evil.hashtext(text) returns integer language sql volatile
  begin atomic insert into evil.ran values (current_user); select pg_catalog.hashtext($1); end;
  create function evil.count() returns bigint language sql as 'select 0::bigint';
  create function evil.text_eq(text, text) returns boolean language sql volatile
  begin atomic insert into evil.ran values (current_user); select $1 operator(pg_catalog.=) $2; end;
  create function evil.time_gt(timestamptz, timestamptz) returns boolean language sql volatile
  begin atomic insert into evil.ran values (current_user); select $1 operator(pg_catalog.>) $2; end;
  create function evil.time_add(timestamptz, interval) returns timestamptz language sql volatile
  begin atomic insert into evil.ran values (current_user); select $1 operator(pg_catalog.+) $2; end;
  create operator evil.= (function = evil.text_eq, leftarg = text, rightarg = text);
  create operator evil.> (function = evil.time_gt, leftarg = timestamptz, rightarg = timestamptz);
  create operator evil.+ (function = evil.time_add, leftarg = timestamptz, rightarg = interval);

  create temporary table refresh_schedule (function_name text, locked_by text, fence bigint);
  create temporary table refresh_runs (request_id uuid);
  set search_path = evil, pg_temp, pg_catalog, public;
"""


@pytest.fixture
def roles(server: Server) -> Iterator[dict[str, str]]:
    """Role -> a login that has it. Name it before the database, so that they are dropped after."""
    found = {role: f"cronlease_test_{uuid4().hex[:12]}" for role in DOCUMENTED}
    with psycopg.connect(server.admin, autocommit=True) as admin:
        ours = one(admin, "select array(select rolname::text from pg_roles where rolname like 'cronlease\\_r%%')")
        for name in found.values():
            admin.execute(sql.SQL("create role {} login password 'secret'").format(sql.Identifier(name)))
        yield found
        for name in {*found.values(), "cronlease_runner", "cronlease_reader"} - set(ours):
            with suppress(psycopg.errors.DependentObjectsStillExist):
                admin.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(name)))


def give(dsn: str, roles: dict[str, str]) -> None:
    """Applies roles.sql, makes each login a member, and leaves two schedules."""
    migrate(dsn, roles=True)
    with psycopg.connect(dsn, autocommit=True) as conn:
        for role in ("cronlease_runner", "cronlease_reader"):
            conn.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), sql.Identifier(roles[role])))
        schedule(conn, "free")
        schedule(conn, "held")
        conn.execute("select public.acquire_refresh_lock('held', %s)", [HELD])


@contextmanager
def connected(dsn: str, name: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(make_conninfo(dsn, user=name, password="secret"), autocommit=True) as conn:
        yield conn


def let(dsn: str, name: str, statements: Iterable[str], owner: psycopg.Connection) -> set[str]:
    """The statements that this login is let do; each is undone. Another error than a refusal is no answer."""
    allowed = set()
    params = {"owner": owner.info.backend_pid, "name": owner.info.user}
    with connected(dsn, name) as conn:
        for statement in statements:
            text = statement % params if "%(" in statement else statement
            with suppress(psycopg.errors.InsufficientPrivilege), conn.transaction(force_rollback=True):
                if text.startswith("copy"):
                    with conn.cursor().copy(text) as copied:
                        list(copied)
                else:
                    conn.execute(text)
                allowed.add(statement)
    return allowed


def test_each_role_is_let_do_what_is_documented_and_nothing_else(
    roles: dict[str, str], dsn: str, conn: psycopg.Connection
) -> None:
    give(dsn, roles)
    for role, name in roles.items():
        allowed = let(dsn, name, STATEMENTS, conn)
        assert (allowed - DOCUMENTED[role], DOCUMENTED[role] - allowed) == (set(), set()), role


@pytest.mark.thorough
def test_with_the_functions_left_open_the_same_test_sees_it(
    roles: dict[str, str], empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without the revoke a stranger ends other people's runs."""
    monkeypatch.setattr(SchemaFile, "closing", "")
    migrate(empty_dsn)
    give(empty_dsn, roles)
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        too_much = let(empty_dsn, roles["nobody of ours"], RUNNER, conn)
    assert {each for each in too_much if "finish_refresh_run" in each or "claim_due_refresh" in each}


def test_everything_of_ours_is_in_the_list(conn: psycopg.Connection) -> None:
    named = set(re.findall(r"public\.(\w+)", " ".join(STATEMENTS)))
    assert set(one(conn, OURS)) <= named
    assert len(STATEMENTS) == len(set(STATEMENTS)) > 80


def test_what_was_given_is_kept_up_by_every_later_migrate(
    roles: dict[str, str], dsn: str, conn: psycopg.Connection
) -> None:
    give(dsn, roles)
    # As an older version would have left it, without a function and a view that this one has.
    conn.execute("drop function public.take_refresh_lock; drop view public.refresh_rows")
    migrate(dsn)
    with connected(dsn, roles["cronlease_runner"]) as runner:
        assert acquire(runner, uuid4(), "free").acquired


def test_without_the_roles_migrate_gives_nothing_to_anybody(
    roles: dict[str, str], dsn: str, conn: psycopg.Connection
) -> None:
    """Although another database of the same server has them."""
    with psycopg.connect(dsn, autocommit=True) as admin, suppress(psycopg.errors.DuplicateObject):
        admin.execute("create role cronlease_runner nologin")
    migrate(dsn)
    assert not one(
        conn,
        "select has_function_privilege('cronlease_runner', 'public.assert_lease(text, uuid, bigint)', 'execute')",
    )


@pytest.mark.thorough
def test_one_who_may_not_create_roles_is_told_what_to_ask_for(
    roles: dict[str, str], empty_dsn: str, server: Server
) -> None:
    owner = roles["nobody of ours"]
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        names = sql.Identifier(admin.info.dbname), sql.Identifier(owner)
        admin.execute(sql.SQL("alter database {} owner to {}").format(*names))
        admin.execute(sql.SQL("grant create on schema public to {}").format(names[1]))
        if one(admin, "select exists (select from pg_roles where rolname = 'cronlease_runner')"):
            admin.execute("alter role cronlease_runner rename to cronlease_put_away")
    url = make_conninfo(empty_dsn, user=owner, password="secret")
    try:
        with pytest.raises(MigrationError, match=r"create role cronlease_runner nologin") as caught:
            migrate(url, roles=True)
        assert len(str(caught.value).splitlines()) == 1
    finally:
        with psycopg.connect(server.admin, autocommit=True) as admin, suppress(psycopg.errors.UndefinedObject):
            admin.execute("alter role cronlease_put_away rename to cronlease_runner")
    with psycopg.connect(server.admin, autocommit=True) as admin:
        for role in ("cronlease_runner", "cronlease_reader"):
            with suppress(psycopg.errors.DuplicateObject):
                admin.execute(sql.SQL("create role {} nologin").format(sql.Identifier(role)))
    migrate(url, roles=True)
    migrate(url)


def test_every_function_that_acts_for_its_owner_looks_for_nothing_elsewhere(conn: psycopg.Connection) -> None:
    text = """
        select p.proname::text, p.proconfig
        from pg_proc p
        where p.pronamespace = 'public'::regnamespace
          and p.prosecdef
    """
    found: dict[str, list[str]] = dict(conn.execute(text).fetchall())
    assert len(found) == 22
    assert [name for name, config in found.items() if "search_path=pg_catalog, pg_temp" not in config] == []


def attack(dsn: str, name: str, owner: psycopg.Connection) -> set[str]:
    """A runner who may also make a schema brings functions, operators and tables of its own and goes through the life
    of a run; answers with whose rights they were run."""
    database = sql.Identifier(owner.info.dbname)
    owner.execute(sql.SQL("grant create on database {} to {}").format(database, sql.Identifier(name)))
    with connected(dsn, name) as conn:
        conn.execute(HOSTILE)
        request = uuid4()
        claim = acquire(conn, request, "free")
        conn.execute("select public.assert_lease('free', %s, %s)", [request, claim.fence])
        renew(conn, request, claim.fence)
        finish(conn, request, claim.fence, function_name="free")
        conn.execute("select public.release_refresh_lock('free', %s)", [request])
        conn.execute("select public.ensure_schedule('another')")
        conn.execute("select public.schedule_action('a third', 'work')")
        conn.execute("select public.schedule_action('a third', 'work', p_replace => true)")
        conn.execute("select public.claim_due_refresh(gen_random_uuid()), public.due_refreshes()")
        conn.execute("select public.renew_refresh_locks('{free}', array[%s], '{1}', '{5m}')", [request])
        run = {"function_name": "free", "request_id": str(request), "fence": 1, "status": "success"}
        conn.execute("select public.finish_refresh_runs(%s)", [Jsonb([run])])
        conn.execute("select public.read_refresh_status()")
        return {row[0] for row in conn.execute("select name from evil.ran").fetchall()}


def test_what_a_caller_brings_is_never_run_with_the_rights_of_the_owner(
    roles: dict[str, str], dsn: str, conn: psycopg.Connection
) -> None:
    give(dsn, roles)
    runner = roles["cronlease_runner"]
    # Its own rights it may use as it likes: that is also how we see that the attack bites.
    assert attack(dsn, runner, conn) == {runner}


@pytest.mark.parametrize(
    "function", one_in(3, ["take_refresh_lock", "finish_refresh_run", "assert_lease", "finish_refresh_runs"])
)
def test_without_the_pinned_path_the_same_attack_succeeds(
    roles: dict[str, str], dsn: str, conn: psycopg.Connection, function: str
) -> None:
    """The control."""
    give(dsn, roles)
    conn.execute(f"alter function public.{function} reset search_path")
    runner = roles["cronlease_runner"]
    assert attack(dsn, runner, conn) == {runner, conn.info.user}
