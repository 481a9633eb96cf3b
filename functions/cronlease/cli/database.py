"""The embedded database, for a verb that ends soon and for a worker that outlives the server it has joined."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from cronlease.db.ask import PooledConnection
from cronlease.db.connection import Database
from cronlease.embedded.server import EmbeddedPostgres, EmbeddedPostgresError, default_data_dir
from cronlease.errors import Unreachable

_WAITS = "another cronlease still uses the embedded PostgreSQL: waiting for it; Ctrl-C ends it now"


@contextmanager
def embedded_url(*, stays: bool) -> Iterator[str]:
    """Starts or joins the server. When the block ends, waits until other verbs are done with it. `stays=True` does
    not wait: such a process starts a server of its own when the one it uses ends."""
    place = default_data_dir() / "postgres"
    if sys.stderr.isatty():
        click.echo("database: the embedded PostgreSQL, because DATABASE_URL is not set", err=True)
    if sys.stderr.isatty() and not place.exists():
        click.echo(f"Making an embedded PostgreSQL in {place}: this takes a moment, but only once.", err=True)
    try:
        server = EmbeddedPostgres.start(place, keep=not stays)
    except EmbeddedPostgresError as error:
        raise click.ClickException(str(error)) from None
    with server:
        try:
            yield server.dsn
        finally:
            if not stays:
                # The verb's work is done: Ctrl-C ends only the wait.
                with suppress(KeyboardInterrupt, OSError):
                    server.stop_when_free(lambda: click.echo(_WAITS, err=True))


class EmbeddedDatabase(Database):
    """Restarts a server that does not answer, or joins the one that another process has started meanwhile. Ours ends
    with us. Only for the main thread."""

    def __init__(self, place: Path, url: str, **how: Any) -> None:
        super().__init__(url, **how)
        self._place = place

    async def _open(self) -> PooledConnection:
        try:
            return await super()._open()
        except Unreachable:
            try:
                # Nothing can go on without it, so blocking the event loop does no harm.
                self.url = EmbeddedPostgres.start(self._place).dsn
            except EmbeddedPostgresError as error:
                raise Unreachable(str(error)) from None
            return await super()._open()
