"""The owner of the tables can restore openings with the time at which each was first seen; nobody else can."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from cronlease.embedded.install import wheel_bin_dir
from tests.conftest import Server
from tests.require import need_postgres
from tests.schema.calls import one

WRITE = "insert into public.opening_signals (source, external_id, first_seen_at) values ('acme', %s, '2020-02-03')"
SEEN = "select first_seen_at = '2020-02-03' from public.opening_signals where external_id = %s"
RESTORING = "set cronlease.restoring = on"


def programs(conn: psycopg.Connection) -> Path:
    """Of the server's own version: pg_restore says what an older server does not know."""
    return wheel_bin_dir() if conn.info.server_version >= 180000 else need_postgres()


@pytest.fixture
def stranger(server: Server) -> Iterator[str]:
    """A role without any right. Name it before the database, so that it is dropped after."""
    name = f"cronlease_test_{uuid4().hex[:12]}"
    with psycopg.connect(server.admin, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
        yield name
        admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.mark.parametrize("says_so", [True, False])
def test_a_dump_of_the_data_comes_back_with_its_times(
    dsn: str, conn: psycopg.Connection, tmp_path: Path, says_so: bool
) -> None:
    conn.execute(RESTORING)
    conn.execute(WRITE, ["1"])
    assert one(conn, SEEN, ["1"])
    file, data = str(tmp_path / "dump"), ["--dbname", dsn, "--data-only"]
    dump = [*data, "--table", "public.opening_signals", "--format=custom", "--file", file]
    subprocess.run([programs(conn) / "pg_dump", *dump], check=True)
    conn.execute("delete from public.opening_signals")

    environment = {**os.environ, **({"PGOPTIONS": "-c cronlease.restoring=on"} if says_so else {})}
    subprocess.run([programs(conn) / "pg_restore", *data, file], check=True, env=environment)

    assert one(conn, SEEN, ["1"]) is says_so, "by itself a restore sees each opening for the first time"


def test_only_the_owner_may_bring_times_along_and_only_into_new_rows(
    stranger: str, dsn: str, conn: psycopg.Connection
) -> None:
    role = sql.Identifier(stranger)
    conn.execute(sql.SQL("grant select, insert, update on public.opening_signals to {}").format(role))
    conn.execute(sql.SQL("set role {}").format(role))
    conn.execute(RESTORING)
    conn.execute(WRITE, ["1"])
    assert not one(conn, SEEN, ["1"])
    conn.execute("reset role")
    conn.execute("update public.opening_signals set first_seen_at = '2020-02-03'")
    assert not one(conn, SEEN, ["1"]), "what was seen stays as it was, also for the owner"
    conn.execute(WRITE, ["2"])
    assert one(conn, SEEN, ["2"])
    conn.execute("set cronlease.restoring = off")
    conn.execute(WRITE, ["3"])
    assert not one(conn, SEEN, ["3"])
    conn.execute(RESTORING)
    conn.execute("insert into public.opening_signals (source, external_id, first_seen_at) values ('acme', '4', null)")
    assert one(conn, "select first_seen_at is not null from public.opening_signals where external_id = '4'")
    conn.execute(sql.SQL("drop owned by {}").format(role))
