"""Delivers what is to be told: looks for it in the database, sends it, and writes down what became of it.

What is told, and that it is told once, is decided in SQL. Nothing here changes a run or holds it up for long, and
nothing raises: what could not be delivered is found by the next look, of whichever process.
"""

import asyncio
import logging
import time
from contextlib import suppress
from datetime import timedelta
from itertools import groupby
from uuid import uuid4

from cronlease.db.alerts import claim_refresh_alerts, name_of, settle_refresh_alerts
from cronlease.db.connection import Database, within
from cronlease.errors import DatabaseTrouble
from cronlease.observe import alert
from cronlease.observe.alert import Alert
from cronlease.observe.logs import log
from cronlease.settings import Settings

# Shorter than the time that a process which is told to stop has for its last words.
_AWAITED = timedelta(seconds=2.5)
_deliveries: set[asyncio.Task[None]] = set()


async def deliver(database: Database, settings: Settings) -> None:
    """Looks for late schedules and for what is to be told, and tells it. Waits for 2.5 s at most: an answer that
    comes later still counts, if the process lives."""
    task = asyncio.ensure_future(_Delivery(database, settings).run())
    _deliveries.add(task)
    task.add_done_callback(_deliveries.discard)
    await asyncio.wait({task}, timeout=_AWAITED.total_seconds())


class _Delivery:
    """One look, under a name of its own: what it was given nobody else is."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._urls = {name_of(url): url for url in settings.alert_url}
        self._status_url = settings.status_address
        self._holder = uuid4()
        self._ends_at = time.monotonic() + _AWAITED.total_seconds()

    async def run(self) -> None:
        try:
            query = claim_refresh_alerts(self._urls, self._holder)
            claimed = [Alert.read(row) for row in await within(_AWAITED, self._database.ask(query))]
            each = groupby(claimed, key=lambda one: one.address)
            await asyncio.gather(*(self._to(self._urls[address], list(alerts)) for address, alerts in each))
        except (DatabaseTrouble, TimeoutError) as trouble:
            # What is wrong with the database the next claim says.
            log(logging.DEBUG, f"No alerts could be looked for: {trouble}", action="alerts_unread")

    async def _to(self, url: str, alerts: list[Alert]) -> None:
        """One address, in order. What fails is tried again later, and all behind it waits."""
        failed: list[int] = []
        left = list(alerts)
        # Nothing is begun after its time: a process that stood still may no longer hold what it was given.
        while left and not failed and time.monotonic() < self._ends_at:
            one = left.pop(0)
            trouble = await alert.post(url, one.text(self._status_url))
            if trouble is None:
                await self._settle(delivered=[one.id])
                continue
            failed.append(one.id)
            log(
                logging.WARNING,
                f"An alert could not be delivered, and will be tried again: {alert.host_of(url)}: {trouble}",
                action="alert_failed",
                function=one.function_name,
                kind=one.kind,
            )
        if failed or left:
            await self._settle(failed=failed, unsent=[one.id for one in left])

    async def _settle(self, **became: list[int]) -> None:
        # Held for a while then, and told again: nobody knows that it was delivered.
        with suppress(DatabaseTrouble, TimeoutError):
            await within(_AWAITED, self._database.ask(settle_refresh_alerts(self._holder, **became)))
