"""What the command line says and does where a backend keeps a schedule from running."""

import json
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.shell import Shell
from tests.integration.conftest import Room
from tests.schema.calls import acquire, expire, schedule
from tests.schema.test_frozen import frozen, has_ended


@pytest.fixture
def cronlease(dsn: str, tmp_path: Path) -> Shell:
    return Shell(make_conninfo(dsn, application_name="psql"), tmp_path)


def warnings(cronlease: Shell, check: str) -> list[str]:
    _, out, _ = cronlease.quickly("doctor", "--json")
    return [
        f"{finding['said']}; {finding['fix']}"
        for finding in json.loads(out)["findings"]
        if finding["check"] == check and finding["level"] == "warning"
    ]


def test_a_holder_that_stands_still_is_named_and_unlocked(
    cronlease: Shell, dsn: str, conn: psycopg.Connection
) -> None:
    schedule(conn)
    held = (request := uuid4()), acquire(conn, request).fence
    with frozen(dsn, held) as holder:
        which = f"backend {holder.info.backend_pid} of the role {holder.info.user}"
        assert which not in cronlease.says_quickly("explain", "job"), "it is in nobody's way before its lease ends"
        assert warnings(cronlease, "backends") == []

        holder.execute("rollback")
        expire(conn)
        holder.execute("begin")
        holder.execute("select assert_lease('job', %s, %s)", held)
        explained = cronlease.says_quickly("explain", "job")
        assert f"{which}, which has waited for its client since" in explained
        assert "`cronlease schedule unlock job` ends it now." in explained
        (found,) = warnings(cronlease, "backends")
        assert which in found

        status, out, err = cronlease.quickly("recover", "--json")
        assert (status, json.loads(out)) == (0, {"recovered": 0, "left": ["job"]})
        assert f'a run of "job" still has its row locked in {which}' in err
        status, out, _ = cronlease.quickly("recover")
        assert out == "no lease could be cleared\n"

        assert "can never write again" in cronlease.says_quickly("schedule", "unlock", "job", "--yes")
        has_ended(conn, holder)
    assert cronlease.says_quickly("recover", "--all") == "no lease has run out\n"


@pytest.mark.thorough
def test_a_prepared_transaction_that_has_the_row_is_named_with_what_ends_it(
    cronlease: Shell, dsn: str, conn: psycopg.Connection
) -> None:
    if conn.execute("show max_prepared_transactions").fetchone() == ("0",):
        pytest.skip("the server has max_prepared_transactions = 0")
    schedule(conn)
    held = (request := uuid4()), acquire(conn, request).fence
    gid = f"it's {request}"
    with psycopg.connect(dsn, autocommit=True) as holder:
        holder.execute("begin")
        holder.execute("select assert_lease('job', %s, %s)", held)
        holder.pgconn.exec_(f"prepare transaction 'it''s {request}'".encode())
    fix = f"`rollback prepared 'it''s {request}'` as "
    try:
        assert fix in cronlease.says_quickly("explain", "job")
        (found,) = warnings(cronlease, "backends")
        assert fix in found
        status, _, err = cronlease.quickly("schedule", "unlock", "job", "--yes")
        assert status != 0
        assert fix in err
        _, _, err = cronlease.quickly("recover", "--all")
        assert fix in err
    finally:
        conn.execute(f"rollback prepared 'it''s {request}'")
    assert gid not in cronlease.says_quickly("explain", "job")
    assert "can never write again" in cronlease.says_quickly("schedule", "unlock", "job", "--yes")


@pytest.mark.thorough
def test_a_stranger_with_the_lock_of_a_claim_is_named(cronlease: Shell, dsn: str, room: Room) -> None:
    room.query("select ensure_schedule('job')")
    with psycopg.connect(dsn, autocommit=True) as stranger:
        stranger.execute("select pg_advisory_lock(refresh_lock_key('claim'), id) from refresh_schedule")
        which = f"the advisory lock of a claim is held by backend {stranger.info.backend_pid} "
        by_hand = f"`select pg_terminate_backend({stranger.info.backend_pid})` as {stranger.info.user} or as a"
        explained = cronlease.says_quickly("explain", "job")
        assert which in explained
        assert by_hand in explained
        (found,) = warnings(cronlease, "backends")
        assert which in found
        assert by_hand in found
    assert warnings(cronlease, "backends") == []


@pytest.mark.thorough
def test_the_doctor_warns_of_a_schema_that_is_open_to_all(cronlease: Shell, room: Room) -> None:
    room.query("revoke create on schema public from public")
    assert warnings(cronlease, "server") == []
    room.query("grant create on schema public to public")
    (found,) = warnings(cronlease, "server")
    assert "revoke create on schema public from public" in found
