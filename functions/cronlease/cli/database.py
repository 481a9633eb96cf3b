"""The embedded database: for a verb, and for a process that stays and whose server may have been another's."""

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
    """The server for as long as the block lasts, and then for as long as other verbs use it. Who stays keeps nobody
    waiting: it starts a server of its own when one ends under it."""
    place = default_data_dir() / "postgres"
    if sys.stderr.isatty() and not place.exists():
        click.echo(f"Making an embedded PostgreSQL in {place}: that takes a moment, once.", err=True)
    try:
        server = EmbeddedPostgres.start(place, keep=not stays)
    except EmbeddedPostgresError as error:
        raise click.ClickException(str(error)) from None
    with server:
        try:
            yield server.dsn
        finally:
            if not stays:
                # What the verb has done is done: Ctrl-C ends only the wait.
                with suppress(KeyboardInterrupt, OSError):
                    server.stop_when_free(lambda: click.echo(_WAITS, err=True))


class EmbeddedDatabase(Database):
    """A server that does not answer is started again, or joined where another process was faster. Ours ends with
    us. For the main thread."""

    def __init__(self, place: Path, url: str, **how: Any) -> None:
        super().__init__(url, **how)
        self._place = place

    async def _open(self) -> PooledConnection:
        try:
            return await super()._open()
        except Unreachable:
            try:
                # Nothing else can go on without it, so the event loop may wait.
                self.url = EmbeddedPostgres.start(self._place).dsn
            except EmbeddedPostgresError as error:
                raise Unreachable(str(error)) from None
            return await super()._open()
