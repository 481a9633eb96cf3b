"""A function that runs when it cannot read its schedule. For the negative control of P9."""

import httpx2

from cronlease import Run, scheduled
from cronlease.db.functions import Claim
from cronlease.run import attempt
from opening_signals import settings
from opening_signals.sources_file import load

NAME = "refresh_opening_signals"
ROW = {"function_name": NAME, "action": NAME, "at": "2026-11-16T12:00:00+00:00"}
GRANTED = Claim(True, None, 1, None, None, None, NAME, {}, None, 0, details=ROW)
attempt._unreadable = lambda why: GRANTED


@scheduled
async def refresh_opening_signals(run: Run) -> None:
    (source,) = load(settings.sources_file())
    async with httpx2.AsyncClient() as client:
        await client.get(source.url)
