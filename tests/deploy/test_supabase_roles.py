"""Row-level security as deploy/supabase/cronlease.sql switches it on: our two roles keep what is theirs, and whoever
is granted a table by mistake sees nothing of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cronlease.db.migration.migrate import migrate
from tests.conftest import Server
from tests.deploy.test_supabase import Project, Row, apply, project
from tests.schema.test_roles import DOCUMENTED, STATEMENTS, connected, give, let

__all__ = ["project"]  # the fixture

AN_OPENING = "insert into public.opening_signals (source, external_id) values ('acme', '1')"
SEEN = "select count(*) from public.opening_signals"


@pytest.fixture
def logins(server: Server) -> Iterator[dict[str, str]]:
    """Role -> a login for it. Name it before the project, so that they are dropped after."""
    found = {role: f"cronlease_test_{uuid4().hex[:12]}" for role in DOCUMENTED}
    with psycopg.connect(server.admin, autocommit=True) as admin:
        for name in found.values():
            admin.execute(sql.SQL("create role {} login password 'secret'").format(sql.Identifier(name)))
        yield found
        for name in found.values():
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@contextmanager
def acting(admin: psycopg.Connection[Row], role: str) -> Iterator[None]:
    """As the REST API does: one login, and the role of the request."""
    admin.execute(sql.SQL("set role {}").format(sql.Identifier(role)))
    try:
        yield
    finally:
        admin.execute("reset role")


@pytest.mark.thorough
def test_our_roles_may_do_behind_it_what_they_may_without(logins: dict[str, str], project: Project) -> None:
    migrate(project.dsn, roles=True)
    give(make_conninfo(project.dsn, user=project.admin.info.user, password=project.admin.info.password), logins)
    for _ in range(2):
        apply(project.owner)
    for role, name in logins.items():
        allowed = let(project.dsn, name, STATEMENTS, project.owner)
        assert (allowed - DOCUMENTED[role], DOCUMENTED[role] - allowed) == (set(), set()), role
    project.owner.execute(AN_OPENING)
    # To be let look is not to be shown anything: without its policy a role is told of no rows.
    with connected(project.dsn, logins["cronlease_runner"]) as runner:
        assert runner.execute(SEEN).fetchone() == (1,)
        assert runner.execute("update public.opening_signals set title = 'Baker'").rowcount == 1
        assert runner.execute("select public.read_refresh_status()->'schedules'->1 is not null").fetchone() == (True,)
    with connected(project.dsn, logins["cronlease_reader"]) as reader:
        assert reader.execute("select title from public.openings").fetchall() == [("Baker",)]


def test_a_table_that_is_granted_again_stays_empty_for_the_rest_api(project: Project) -> None:
    project.owner.execute(AN_OPENING)
    apply(project.owner)
    with acting(project.admin, "anon"), pytest.raises(psycopg.errors.InsufficientPrivilege):
        project.admin.execute(SEEN)
    project.owner.execute("grant all on all tables in schema public to anon, authenticated")
    for role in ("anon", "authenticated"):
        with acting(project.admin, role):
            assert project.admin.execute(SEEN).fetchone() == (0,)
            assert project.admin.execute("delete from public.opening_signals").rowcount == 0
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                project.admin.execute(AN_OPENING)
    with acting(project.admin, "service_role"):
        assert project.admin.execute(SEEN).fetchone() == (1,)
