"""Delivers alerts: claims the pending ones in the database, posts them, and records what became of each.

SQL decides what is alerted, and that it is alerted once. Nothing here changes a run, holds it up for long or raises:
an alert that could not be delivered is claimed again later, by whichever process looks next.
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

# Shorter than the time that a stopping process has to write the ends of its runs.
_AWAITED = timedelta(seconds=2.5)
# Nobody waits for these queries, but a claimed alert is held for 30 s: what became of it should be recorded by then.
_ASKED = timedelta(seconds=10)
_deliveries: set[asyncio.Task[None]] = set()


async def deliver(database: Database, settings: Settings) -> None:
    """Finds late schedules and pending alerts, and posts the alerts. Waits for 2.5 s at most: an answer that comes
    later still counts, if the process lives."""
    task = asyncio.ensure_future(_Delivery(database, settings).run())
    _deliveries.add(task)
    task.add_done_callback(_deliveries.discard)
    await asyncio.wait({task}, timeout=_AWAITED.total_seconds())


class _Delivery:
    """One round, under a holder ID of its own: what it has claimed is given to nobody else."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._urls = {name_of(url): url for url in settings.alert_url}
        self._status_url = settings.status_address
        self._holder = uuid4()
        self._ends_at = time.monotonic() + _AWAITED.total_seconds()

    async def run(self) -> None:
        try:
            query = claim_refresh_alerts(self._urls, self._holder)
            claimed = [Alert.read(row) for row in await within(_ASKED, self._database.ask(query))]
            each = groupby(claimed, key=lambda one: one.address)
            await asyncio.gather(*(self._to(self._urls[address], list(alerts)) for address, alerts in each))
        except (DatabaseTrouble, TimeoutError) as trouble:
            # The next claim of a run says what is wrong with the database.
            log(logging.DEBUG, f"The pending alerts could not be read: {trouble}", action="alerts_unread")

    async def _to(self, url: str, alerts: list[Alert]) -> None:
        """Posts to one address, in order. A failed alert is tried again later, and all behind it wait."""
        failed: list[int] = []
        left = list(alerts)
        # Nothing is posted after the deadline: a process that stood still may no longer hold what it claimed.
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
        # If this fails, the alerts are held for a while and posted again: nothing says that they were delivered.
        with suppress(DatabaseTrouble, TimeoutError):
            await within(_ASKED, self._database.ask(settle_refresh_alerts(self._holder, **became)))
