"""GET /health/schedules: whether all schedules are well, for uptime monitors.

The path is open, so an answer is kept for a while: however often somebody asks, the database is rarely asked.
"""

import asyncio
import logging
import time
from datetime import timedelta
from typing import Any, NamedTuple

from cronlease.db.alerts import has_schedule_table, read_refresh_health
from cronlease.db.connection import within
from cronlease.errors import DatabaseTrouble, SchemaMissing
from cronlease.observe.logs import log
from cronlease.outcome import SkipReason
from cronlease.triggers.database import OwnDatabase
from cronlease.triggers.status import NOTHING_YET

_KEPT_SECONDS = 10.0

_OLDER = "the database is not migrated yet: run `cronlease migrate` as the owner of the schema"

Unwell = dict[str, list[str]]


class Health(NamedTuple):
    """The names of the schedules that are not well, by what is wrong; None if the database could not be read."""

    unwell: Unwell | None
    hint: str | None = None

    @property
    def http_status(self) -> int:
        return 503 if self.unwell is None or any(self.unwell.values()) else 200

    def as_json(self, *, with_names: bool) -> dict[str, Any]:
        """Not everybody may see the names: others get how many there are."""
        body: dict[str, Any] = {"healthy": self.http_status == 200}
        if self.unwell is None:
            return body | {"reason": SkipReason.SCHEDULE_READ_ERROR}
        body |= {kind: names if with_names else len(names) for kind, names in self.unwell.items()}
        return body | {"hint": self.hint} if self.hint else body


class HealthCheck:
    """Asks at most once in ten seconds, for everybody who waits for the answer."""

    def __init__(self, database: OwnDatabase, limit: timedelta) -> None:
        self._database = database
        self._limit = limit
        self._health: Health | None = None
        self._read_at = 0.0
        self._asking = asyncio.Lock()

    async def read(self) -> Health:
        async with self._asking:
            if self._health is None or time.monotonic() > self._read_at + _KEPT_SECONDS:
                self._health = await self._read()
                # Taken after the answer: whoever waited for a database that hangs does not ask it again.
                self._read_at = time.monotonic()
            return self._health

    async def _read(self) -> Health:
        try:
            return await within(self._limit, self._ask())
        except (DatabaseTrouble, TimeoutError) as trouble:
            why = str(trouble) or "no answer"
            log(logging.ERROR, f"The health of the schedules could not be read: {why}", action="health_failed")
            return Health(None)

    async def _ask(self) -> Health:
        database = self._database.get()
        try:
            unwell: Unwell = await database.ask(read_refresh_health())
            return Health(unwell)
        except SchemaMissing as missing:
            if await database.ask(has_schedule_table()):
                raise SchemaMissing(f"{str(missing).rstrip('.')}; {_OLDER}") from missing
            # Nothing is late where nothing is scheduled yet.
            return Health({"late": [], "failing": [], "breaker_open": []}, NOTHING_YET)
