"""Real servers for every test: the embedded one, or the one DATABASE_URL names, and a fresh database each."""

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cronlease.emulator.postgres import EmbeddedPostgres
from cronlease.migrate import migrate

CONFIGURED = os.environ.pop("DATABASE_URL", None)


@dataclass
class Server:
    """A server that hands out databases: empty ones, or clones of one that `migrate` itself has built."""

    admin: str
    template: str = ""

    def create(self, template: str = "template0") -> str:
        name = f"cronlease_test_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.admin, autocommit=True) as conn:
            conn.execute(
                sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template))
            )
        return name

    def migrated(self) -> str:
        if not self.template:
            self.template = self.create()
            migrate(self.url(self.template))
        return self.create(self.template)

    def url(self, name: str) -> str:
        return make_conninfo(self.admin, dbname=name)

    def drop(self, name: str) -> None:
        with psycopg.connect(self.admin, autocommit=True) as conn:
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def started(bin_dir: Path | None = None) -> Iterator[Server]:
    """A server of our own for the session, in memory where there is room: most of the time goes into cloning.

    Its directory must be open to the user it runs as.
    """
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2 * 1024**3
    with tempfile.TemporaryDirectory(prefix="cronlease-test-", dir=memory if roomy else None) as place:
        Path(place).chmod(0o755)
        with EmbeddedPostgres.start(Path(place) / "pg", bin_dir=bin_dir, fsync=False) as embedded:
            yield Server(embedded.dsn_for("postgres"))


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[Server]:
    if CONFIGURED is not None:
        server = Server(CONFIGURED)
        yield server
        if server.template:
            server.drop(server.template)
    else:
        yield from started()


@pytest.fixture
def server(embedded_server: Server) -> Server:
    return embedded_server


@pytest.fixture
def dsn(server: Server) -> Iterator[str]:
    """A fresh database with our schema in it."""
    name = server.migrated()
    yield server.url(name)
    server.drop(name)


@pytest.fixture
def empty_dsn(server: Server) -> Iterator[str]:
    """A fresh database with nothing in it."""
    name = server.create()
    yield server.url(name)
    server.drop(name)


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection
