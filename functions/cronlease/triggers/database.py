"""The database of this process: what is configured, or the embedded server of a person's own machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from cronlease.db.connection import Database
from cronlease.db.conninfo import place_of
from cronlease.db.schema import PUBLIC, schema
from cronlease.errors import DatabaseTrouble, Unreachable
from cronlease.process.shutdown import process
from cronlease.settings import Settings

if TYPE_CHECKING:
    from cronlease.embedded.server import EmbeddedPostgres

_embedded: "EmbeddedPostgres | None" = None


class OwnDatabase:
    """Opened when it is first needed, on the event loop that needs it: a module is imported before its worker is
    forked. Closed when the process drains, and opened again by whoever still needs it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._database: Database | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> Database:
        """Raises Unreachable if the embedded server cannot be started."""
        loop = asyncio.get_running_loop()
        gone = not self._settings.has_database and (_embedded is None or not _embedded.running)
        if self._database is None or self._loop is not loop or gone:
            self._database = Database(database_url(self._settings), pooler=self._settings.pooler)
            self._loop = loop
            process.close_at_the_end(self.close)
        return self._database

    async def close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            await database.close()


@asynccontextmanager
async def opened(url: str, settings: Settings) -> AsyncIterator[Database]:
    """The database for one run, closed after it."""
    database = Database(url, pooler=settings.pooler)
    try:
        yield database
    finally:
        await database.close()


def database_url(settings: Settings) -> str:
    """Starts or joins the embedded server if no database is configured: call it from a thread that stays, because the
    server ends with it. Raises Unreachable."""
    global _embedded
    if settings.has_database:
        return settings.database_url or ""
    from cronlease.embedded.server import EmbeddedPostgres, EmbeddedPostgresError, default_data_dir

    try:
        _embedded = EmbeddedPostgres.start(default_data_dir() / "postgres")
    except EmbeddedPostgresError as error:
        raise Unreachable(str(error)) from None
    return _embedded.dsn


def described(settings: Settings) -> str:
    """For the first line of a log, without secrets: where the database is, and who we are there."""
    if not settings.has_database:
        from cronlease.embedded.cluster import default_data_dir

        return f"the embedded PostgreSQL in {default_data_dir() / 'postgres'}: set DATABASE_URL for another"
    try:
        where = "" if schema() == PUBLIC else f", schema {schema()}"
        return f"the database {place_of(settings.database_url or '')}{where}"
    except DatabaseTrouble as trouble:
        return f"no database: {trouble}"
