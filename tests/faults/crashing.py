"""A private server that can be crashed and started again, and a proxy that always leads to it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg

from cronlease.db.migration.migrate import migrate
from cronlease.embedded.server import EmbeddedPostgres
from tests.conftest import directory_in_memory
from tests.integration.conftest import Room
from tests.proxy import Proxy, proxied


class Crashing:
    """Keeps what it has acknowledged: fsync is on. Start and stop it from the main thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._server = EmbeddedPostgres.start(directory, fsync=True)
        self.restarts = 0

    def database(self) -> str:
        """The name of a new one, with our schema in it."""
        name = f"crash_{uuid4().hex[:8]}"
        migrate(self._server.create_database(name))
        return name

    def dsn(self, name: str) -> str:
        return self._server.dsn_for(name)

    def configure(self, **settings: str) -> None:
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as conn:
            for name, value in settings.items():
                conn.execute(f"alter system set {name} = '{value}'")
            conn.execute("select pg_reload_conf()")

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGQUIT is an immediate stop, as good as a crash; SIGINT ends every connection and stops in order."""
        os.kill(self._server.pid, how)
        self._server.stop()

    def start(self) -> None:
        self._server = EmbeddedPostgres.start(self._directory, fsync=True)
        self.restarts += 1

    def close(self) -> None:
        self._server.stop()


class Base:
    """One database of such a server, as those see it who come through the proxy, and as the test does."""

    def __init__(self, server: Crashing, name: str, proxy: Proxy) -> None:
        self.server, self.name, self.proxy = server, name, proxy

    @property
    def room(self) -> Room:
        return Room(self.server.dsn(self.name))

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        self.server.stop(how)

    def start(self) -> None:
        self.server.start()
        self.proxy.lead_to(self.server.dsn(self.name))

    def restart(self, how: signal.Signals = signal.SIGQUIT) -> None:
        self.stop(how)
        self.start()


@contextmanager
def base_of(server: Crashing) -> Iterator[Base]:
    name = server.database()
    with proxied(server.dsn(name)) as proxy:
        base = Base(server, name, proxy)
        base.room.query("create table effect (request_id uuid)")
        yield base


@contextmanager
def crashing_server() -> Iterator[Crashing]:
    with directory_in_memory() as place:
        server = Crashing(place / "pg")
        try:
            yield server
        finally:
            server.close()
