"""Databases and roles with defaults that are not ours: other dates, other text, other encodings (D8)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from cronlease.db.connection import Database
from cronlease.db.migration.migrate import migrate
from cronlease.job import Job
from cronlease.settings import load
from cronlease.triggers.dispatch import Dispatcher
from tests.acceptance.shell import Shell
from tests.conftest import Server
from tests.faults.pgbouncer import pooling
from tests.faults.profile import one_in
from tests.integration.conftest import NAME, Room, step

DEFAULTS = {
    "datestyle": "German, DMY",
    "intervalstyle": "sql_standard",
    "client_encoding": "SQL_ASCII",
    "timezone": "Asia/Kathmandu",
    "bytea_output": "escape",
}
ENCODINGS = ("LATIN1", "SQL_ASCII")


@pytest.fixture
def odd(dsn: str, conn: psycopg.Connection) -> Room:
    """A database whose sessions begin with those defaults."""
    for name, value in DEFAULTS.items():
        database = sql.Identifier(conn.info.dbname)
        conn.execute(sql.SQL("alter database {} set {} = {}").format(database, sql.SQL(name), sql.Literal(value)))
    return Room(dsn)


async def tick(run: Any) -> None:
    """Reads a time and writes a text, as a job does."""
    async with run.commit() as conn:
        cursor = await conn.execute("select clock_timestamp(), 'Gr\u00fc\u00dfe'::text")
        now, text = await cursor.fetchone()
        assert now.tzinfo is not None
        assert text == "Gr\u00fc\u00dfe"
        run.report(hint=text)


def plain(run: Any) -> None:
    with run.commit() as conn:
        assert conn.execute("select clock_timestamp()").fetchone()[0].tzinfo is not None


def serves(room: Room) -> None:
    assert room.enter(tick).status == "success"
    assert room.enter(tick).skipped == "not_due"
    assert room.enter(plain, force=True).status == "success"

    async def dispatch() -> None:
        settings = load({})
        database = Database(room.dsn)
        dispatcher = Dispatcher({NAME: Job.of(tick, settings, name=NAME)}, database, settings)
        found = await step(dispatcher)
        assert found.outcome is None
        assert found.due_in is not None
        assert 540 < found.due_in.total_seconds() < 960
        await database.close()

    asyncio.run(dispatch())


def test_whatever_the_defaults_are_hits_and_dispatchers_run(odd: Room, tmp_path: Path) -> None:
    serves(odd)
    shell = Shell(odd.dsn, tmp_path)
    for verb in (["status"], ["runs"], ["explain", NAME], ["schedule", "show", NAME]):
        assert shell.quickly(*verb)[0] == 0, shell.quickly(*verb)


def test_the_same_behind_a_pooler(odd: Room) -> None:
    with pooling(odd.dsn) as pooled:
        serves(Room(pooled))


@pytest.fixture(params=one_in(2, ENCODINGS))
def encoded(request: pytest.FixtureRequest, server: Server) -> Iterator[tuple[str, str]]:
    """The DSN of a database in that encoding, and its name."""
    name = f"cronlease_test_{request.param.lower()}"
    with psycopg.connect(server.admin, autocommit=True) as admin:
        admin.execute(
            f"create database {name} template template0 encoding '{request.param}' lc_collate 'C' lc_ctype 'C'"
        )
    yield server.url(name), request.param
    server.drop(name)


@pytest.mark.thorough
def test_a_database_in_another_encoding_serves_and_the_doctor_names_it(
    encoded: tuple[str, str], tmp_path: Path
) -> None:
    dsn, encoding = encoded
    migrate(dsn)
    serves(Room(dsn))
    _, out, _ = Shell(dsn, tmp_path).quickly("doctor")
    assert f"the database is encoded as {encoding}" in out
