"""deploy/supabase/cronlease.sql on a database that looks like a project of theirs. The two extensions are not
available here: stand-ins with their signatures record their calls (supabase.sql)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cronlease.db.migration.migrate import migrate
from cronlease.db.migration.schema_files import Packages
from tests.conftest import Server
from tests.deploy.jobs import DEPLOY, definition

Row = tuple[Any, ...]
BEFORE = (Path(__file__).parent / "supabase.sql").read_text()
OURS = (DEPLOY / "supabase" / "cronlease.sql").read_text()

# Whatever the REST API's role could still do in public, by the catalogue's own word.
ALLOWED = """
  select c.relname::text
  from pg_class c, unnest(array['anon', 'authenticated']) r(role)
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v')
    and has_table_privilege(r.role, c.oid, 'select, insert, update, delete, truncate')
  union
  select p.proname::text
  from pg_proc p, unnest(array['anon', 'authenticated']) r(role)
  where p.pronamespace = 'public'::regnamespace and has_function_privilege(r.role, p.oid, 'execute')
"""
UNGUARDED = """
  select c.relname::text
  from pg_class c
  where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and not c.relrowsecurity
"""


# Theirs has no superuser for its owner, who gives whatever he makes to the REST API.
OWNER = """
  create role {0} login createrole password 'secret';
  alter database {1} owner to {0};
  grant {0} to current_user;
  grant create on schema public to {0};
  alter default privileges for role {0} in schema public grant all on tables to anon, authenticated, service_role;
  alter default privileges for role {0} in schema public grant all on functions to anon, authenticated, service_role;
  grant usage on schema cron, net, vault to {0};
  grant all on all tables in schema cron, net, vault to {0};
"""


def apply(conn: psycopg.Connection[Row], text: str = OURS) -> None:
    conn.execute("\n".join(line for line in text.splitlines() if not line.startswith("create extension")).encode())


class Project(NamedTuple):
    owner: psycopg.Connection[Row]
    admin: psycopg.Connection[Row]
    dsn: str


@contextmanager
def new_project(server: Server, packages: Packages = None) -> Iterator[Project]:
    name = server.create()
    owner = name.replace("cronlease_test", "cronlease_owner")
    dsn = make_conninfo(server.url(name), user=owner, password="secret")
    with psycopg.connect(server.url(name), autocommit=True) as admin:
        admin.execute(BEFORE.encode())
        admin.execute(sql.SQL(OWNER).format(sql.Identifier(owner), sql.Identifier(name)))
        migrate(dsn, packages=packages)
        with psycopg.connect(dsn, autocommit=True) as conn:
            yield Project(conn, admin, dsn)
    server.drop(name)
    with psycopg.connect(server.admin, autocommit=True) as admin:
        admin.execute(sql.SQL("drop role {}").format(sql.Identifier(owner)))


@pytest.fixture
def project(server: Server) -> Iterator[Project]:
    with new_project(server) as made:
        yield made


@pytest.fixture
def conn(project: Project) -> psycopg.Connection[Row]:
    return project.owner


def test_nothing_of_ours_is_left_to_the_rest_api(conn: psycopg.Connection[Row]) -> None:
    assert conn.execute(ALLOWED).fetchall() == [], "migrate has taken it away already"
    conn.execute("grant all on all tables in schema public to anon")
    conn.execute("grant all on all functions in schema public to authenticated")
    assert len(conn.execute(ALLOWED).fetchall()) > 20
    apply(conn)
    assert conn.execute(ALLOWED).fetchall() == [], "name it in deploy/supabase/cronlease.sql"
    assert conn.execute(UNGUARDED).fetchall() == [], "name it in deploy/supabase/cronlease.sql"


def test_it_may_be_run_again_and_touches_nothing_else(conn: psycopg.Connection[Row]) -> None:
    conn.execute("create table public.theirs (id integer)")
    for _ in range(2):
        apply(conn)
    assert conn.execute(ALLOWED).fetchall() == [("theirs",)]
    assert conn.execute("select count(*) from cron.job").fetchone() == (3,)


def test_the_hits_are_those_of_the_one_definition(conn: psycopg.Connection[Row]) -> None:
    apply(conn)
    for name, job in definition()["jobs"].items():
        found = conn.execute("select schedule, command from cron.job where jobname = %s", [f"cronlease-{name}"])
        ((schedule, command),) = found.fetchall()
        conn.execute("delete from net.asked")
        conn.execute(command.encode())
        ((url, body, headers, waits),) = conn.execute("select * from net.asked").fetchall()
        assert (schedule, "Etc/UTC") == (job["schedule"], job["time_zone"])
        assert url == "https://cronlease.example" + job["path"]
        assert (body, headers["Authorization"]) == ({}, "Bearer the token")
        assert waits == int(job["attempt_deadline"][:-1]) * 1000
    ((forget,),) = conn.execute("select command from cron.job where jobname = 'cronlease-forget-hits'").fetchall()
    conn.execute(forget.encode())
