"""migrate and the functions that are there already: older signatures go, grants stay."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from cronlease.db.migration.migrate import migrate
from tests.conftest import Server
from tests.schema.calls import one, schedule

RELEASE = "public.release_refresh_lock(text, uuid)"


@pytest.fixture
def roles(server: Server) -> Iterator[list[str]]:
    """Two roles without any right. Name them before the database, so that they are dropped after."""
    names = [f"cronlease test {uuid4().hex[:12]}" for _ in range(2)]
    with psycopg.connect(server.admin, autocommit=True) as admin:
        for name in names:
            admin.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
        yield names
        for name in names:
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def signatures(conn: psycopg.Connection, name: str) -> list[str]:
    text = "select array_agg(oid::regprocedure::text) from pg_proc where proname = %s"
    return list(one(conn, text, [name]))


def may_execute(conn: psycopg.Connection, role: str, function: str = RELEASE) -> bool:
    return bool(one(conn, "select has_function_privilege(%s, %s, 'execute')", [role, function]))


def may_read(conn: psycopg.Connection, role: str) -> bool:
    return bool(one(conn, "select has_table_privilege(%s, 'public.refresh_status', 'select')", [role]))


def grant(conn: psycopg.Connection, text: str, role: str) -> None:
    conn.execute(sql.SQL("grant {} to {}").format(sql.SQL(text), sql.Identifier(role)))


def test_an_older_signature_beside_ours_is_dropped_so_that_old_calls_are_not_ambiguous(
    dsn: str, conn: psycopg.Connection
) -> None:
    schedule(conn)
    old_call = "select * from public.acquire_refresh_lock('job', gen_random_uuid(), interval '1 minute')"
    conn.execute(
        """
        create function public.acquire_refresh_lock(p_function_name text, p_request_id uuid, p_lease interval)
        returns boolean language sql as 'select true'
        """
    )
    assert len(signatures(conn, "acquire_refresh_lock")) == 2

    migrate(dsn)

    assert len(signatures(conn, "acquire_refresh_lock")) == 1
    answer = conn.execute(old_call).fetchone()
    assert answer is not None
    assert answer[:3] == (True, None, 1)


def test_a_call_beside_an_older_signature_is_ambiguous(conn: psycopg.Connection) -> None:
    """The control of the test above: this is why the older one must go."""
    conn.execute(
        """
        create function public.release_refresh_lock(p_function_name text, p_request_id uuid, p_more text default '')
        returns boolean language sql as 'select true'
        """
    )
    with pytest.raises(psycopg.errors.AmbiguousFunction):
        conn.execute(
            "select public.release_refresh_lock(p_function_name => 'job', p_request_id => gen_random_uuid())"
        )


def test_a_function_whose_result_changed_is_replaced(dsn: str, conn: psycopg.Connection) -> None:
    conn.execute(f"drop function {RELEASE}")
    conn.execute(
        """
        create function public.release_refresh_lock(p_function_name text, p_request_id uuid)
        returns integer language sql as 'select 42'
        """
    )

    migrate(dsn)

    result = "select prorettype::regtype::text from pg_proc where oid = %s::regprocedure"
    assert one(conn, result, [RELEASE]) == "boolean"
    assert signatures(conn, "release_refresh_lock") == ["release_refresh_lock(text,uuid)"]


@pytest.mark.thorough
def test_an_argument_that_was_renamed_is_replaced(dsn: str, conn: psycopg.Connection) -> None:
    conn.execute(f"drop function {RELEASE}")
    conn.execute(
        """
        create function public.release_refresh_lock(name text, request uuid)
        returns boolean language sql as 'select true'
        """
    )

    migrate(dsn)

    names = one(conn, "select proargnames from pg_proc where oid = %s::regprocedure", [RELEASE])
    assert names == ["p_function_name", "p_request_id"]


@pytest.mark.thorough
def test_a_view_whose_columns_changed_is_replaced(dsn: str, conn: psycopg.Connection) -> None:
    conn.execute("drop view public.refresh_status")
    conn.execute("create view public.refresh_status as select 1 as state, 2 as gone")

    migrate(dsn)

    assert one(conn, "select count(*) from public.refresh_status") == 0
    columns = (
        "select count(*) from information_schema.columns where table_name = 'refresh_status' and column_name = %s"
    )
    assert (one(conn, columns, ["gone"]), one(conn, columns, ["due"])) == (0, 1)


@pytest.mark.thorough
def test_a_body_that_was_changed_by_hand_is_ours_again(dsn: str, conn: psycopg.Connection) -> None:
    body = "select prosrc from pg_proc where oid = %s::regprocedure"
    ours = one(conn, body, [RELEASE])
    conn.execute(
        """
        create or replace function public.release_refresh_lock(p_function_name text, p_request_id uuid)
        returns boolean language sql as 'select true'
        """
    )

    migrate(dsn)

    assert one(conn, body, [RELEASE]) == ours


@pytest.mark.thorough
def test_grants_survive_migrate(roles: list[str], dsn: str, conn: psycopg.Connection) -> None:
    granted, other = roles
    conn.execute(f"revoke all on function {RELEASE} from public")
    grant(conn, f"execute on function {RELEASE}", granted)
    grant(conn, "select on public.refresh_status", granted)

    migrate(dsn)

    assert (may_execute(conn, granted), may_execute(conn, other)) == (True, False)
    assert (may_read(conn, granted), may_read(conn, other)) == (True, False)


def test_grants_survive_a_change_of_signature_result_or_columns(
    roles: list[str], dsn: str, conn: psycopg.Connection
) -> None:
    """And nobody is let in by it: a new function would be open to all."""
    granted, other = roles
    renew = "public.renew_refresh_lock(text, uuid, bigint, interval, jsonb)"
    conn.execute(
        f"""
        drop function {RELEASE};
        create function public.release_refresh_lock(p_function_name text)
          returns boolean language sql as 'select true';
        revoke all on function public.release_refresh_lock(text) from public;

        drop function {renew};
        create function {renew} returns integer language sql as 'select 1';
        revoke all on function {renew} from public;

        drop view public.refresh_status;
        create view public.refresh_status as select 1 as gone
        """
    )
    grant(conn, "execute on function public.release_refresh_lock(text)", granted)
    grant(conn, f"execute on function {renew}", granted)
    grant(conn, "select on public.refresh_status", granted)

    migrate(dsn)

    assert signatures(conn, "release_refresh_lock") == ["release_refresh_lock(text,uuid)"]
    assert (may_execute(conn, granted), may_execute(conn, other)) == (True, False)
    assert (may_execute(conn, granted, renew), may_execute(conn, other, renew)) == (True, False)
    assert (may_read(conn, granted), may_read(conn, other)) == (True, False)


@pytest.mark.thorough
def test_a_right_to_grant_survives_a_change_of_signature(
    roles: list[str], dsn: str, conn: psycopg.Connection
) -> None:
    granted, _ = roles
    conn.execute(f"drop function {RELEASE}")
    conn.execute("create function public.release_refresh_lock(text) returns boolean language sql as 'select true'")
    conn.execute(
        sql.SQL("grant execute on function public.release_refresh_lock(text) to {} with grant option").format(
            sql.Identifier(granted)
        )
    )

    migrate(dsn)

    assert one(conn, "select has_function_privilege(%s, %s, 'execute with grant option')", [granted, RELEASE])


def test_no_function_is_open_to_all_after_migrate(roles: list[str], dsn: str, conn: psycopg.Connection) -> None:
    """Not even one that somebody has opened: most act with the rights of their owner."""
    granted, other = roles
    conn.execute(f"grant execute on function {RELEASE} to public")
    grant(conn, f"execute on function {RELEASE}", granted)

    migrate(dsn)

    assert (may_execute(conn, granted), may_execute(conn, other)) == (True, False)
    text = """
        select coalesce(array_agg(p.proname::text), '{}')
        from pg_proc p
        where p.pronamespace = 'public'::regnamespace
          and has_function_privilege(%s, p.oid, 'execute')
    """
    assert one(conn, text, [other]) == []
