"""deploy/supabase/cronlease.sql on a database that looks like a project of theirs. The two extensions are not to be
had here: stand-ins with their signatures write down what they were asked (supabase.sql)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cronlease.migrate import migrate
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


def apply(conn: psycopg.Connection[Row], text: str) -> None:
    conn.execute("\n".join(line for line in text.splitlines() if not line.startswith("create extension")).encode())


@pytest.fixture
def project(server: Server) -> Iterator[psycopg.Connection[Row]]:
    name = server.create()
    with psycopg.connect(server.url(name), autocommit=True) as conn:
        conn.execute(BEFORE.encode())
        migrate(server.url(name))
        yield conn
    server.drop(name)


def test_nothing_of_ours_is_left_to_the_rest_api(project: psycopg.Connection[Row]) -> None:
    assert len(project.execute(ALLOWED).fetchall()) > 20
    apply(project, OURS)
    assert project.execute(ALLOWED).fetchall() == [], "name it in deploy/supabase/cronlease.sql"
    assert project.execute(UNGUARDED).fetchall() == [], "name it in deploy/supabase/cronlease.sql"


def test_it_may_be_run_again_and_touches_nothing_else(project: psycopg.Connection[Row]) -> None:
    project.execute("create table public.theirs (id integer)")
    for _ in range(2):
        apply(project, OURS)
    assert project.execute(ALLOWED).fetchall() == [("theirs",)]
    assert project.execute("select count(*) from cron.job").fetchone() == (3,)


def test_the_hits_are_those_of_the_one_definition(project: psycopg.Connection[Row]) -> None:
    apply(project, OURS)
    for name, job in definition()["jobs"].items():
        found = project.execute("select schedule, command from cron.job where jobname = %s", [f"cronlease-{name}"])
        ((schedule, command),) = found.fetchall()
        project.execute("delete from net.asked")
        project.execute(command.encode())
        ((url, body, headers, waits),) = project.execute("select * from net.asked").fetchall()
        assert (schedule, "Etc/UTC") == (job["schedule"], job["time_zone"])
        assert url == "https://cronlease.example" + job["path"]
        assert (body, headers["Authorization"]) == ({}, "Bearer the token")
        assert waits == int(job["attempt_deadline"][:-1]) * 1000
    ((forget,),) = project.execute("select command from cron.job where jobname = 'cronlease-forget-hits'").fetchall()
    project.execute(forget.encode())
