"""P17: the fence only rises, also across a crash of the server and a dump that is restored."""

import os
import signal
import subprocess
from uuid import UUID, uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict

from cronlease.embedded.server import wheel_bin_dir
from tests.faults.crashing import Crashing
from tests.schema.calls import acquire, assert_lease, expire, finish, make_due, refused, release, renew, row, schedule


def claim(conn: psycopg.Connection) -> tuple[UUID, int]:
    request = uuid4()
    make_due(conn)
    return request, acquire(conn, request).fence


def the_old_holder_is_refused(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    before = row(conn)
    for verb in (assert_lease, finish):
        with refused("CL001"):
            verb(conn, *held)
    assert renew(conn, *held) == "lost"
    assert not release(conn, held[0])
    assert row(conn) == before


def restored(server: Crashing, name: str) -> str:
    """A copy of the database, by way of pg_dump and psql."""
    copy = server.database()
    with psycopg.connect(server.dsn(copy), autocommit=True) as conn:
        conn.execute("drop schema public cascade; create schema public")
    parts = conninfo_to_dict(server.dsn(name))
    target = {"PGHOST": str(parts["host"]), "PGPORT": str(parts["port"]), "PGUSER": str(parts["user"])}
    environment = {**os.environ, **target, "PGPASSWORD": str(parts["password"])}
    tool = wheel_bin_dir()
    dumped = subprocess.run(
        [tool / "pg_dump", "--schema=public", name], env=environment, check=True, capture_output=True
    )
    text = dumped.stdout.replace(b"CREATE SCHEMA public;", b"")
    subprocess.run(
        [tool / "psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", copy], env=environment, check=True, input=text,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return copy


def test_the_fence_rises_across_a_crash_and_a_restored_dump(crashing: Crashing) -> None:
    name = crashing.database()
    with psycopg.connect(crashing.dsn(name), autocommit=True) as conn:
        schedule(conn)
        finish(conn, *claim(conn))
        first = claim(conn)
    assert first[1] == 2

    crashing.stop(signal.SIGQUIT)
    crashing.start()
    with psycopg.connect(crashing.dsn(name), autocommit=True) as conn:
        assert renew(conn, *first) == "renewed", "a crash of the server breaks no lease"
        expire(conn)
        second = claim(conn)
        assert second[1] == 3
        the_old_holder_is_refused(conn, first)

    with psycopg.connect(crashing.dsn(restored(crashing, name)), autocommit=True) as conn:
        assert renew(conn, *second) == "renewed"
        the_old_holder_is_refused(conn, first)
        expire(conn)
        assert claim(conn)[1] == 4
        the_old_holder_is_refused(conn, second)
