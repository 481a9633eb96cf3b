"""The embedded database for a process that stays: the server may have been another process's, and end with it."""

from pathlib import Path
from typing import Any

from cronlease.database import Database, PooledConnection
from cronlease.emulator.postgres import EmbeddedPostgres, EmbeddedPostgresError
from cronlease.trouble import Unreachable


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
