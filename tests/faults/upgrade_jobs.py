"""Functions and actions that version 0.1 and this one serve side by side. Each real run leaves one row with its
request ID, in the transaction that ends it; `bare` has no transaction, and leaves a line in a file."""

import asyncio
import os
import random
import time
from pathlib import Path

from cronlease import Run, action, scheduled

VERSION = os.environ.get("SERVED_VERSION", "")
INSERT = "insert into effect (name, request_id, version) values (%s, %s, %s)"


def name_of(run: Run) -> str:
    """Version 0.1 does not tell a run its schedule's name, so rows of actions carry it in their args."""
    return str(run.args["name"])


@scheduled(lease="20s", every="0.3s..0.6s", backoff="0.5s..1s")
async def tick(run: Run) -> None:
    await asyncio.sleep(random.uniform(0, 0.2))
    async with run.commit() as conn:
        await conn.execute(INSERT, ["tick", run.request_id, VERSION])


@scheduled(lease="20s", every="0.3s..0.6s", backoff="0.5s..1s")
def linger(run: Run) -> None:
    """A plain function, nearly always under way: longer than a process that is told to stop lets it go on."""
    for _ in range(30):
        time.sleep(0.1)
        run.check()
    with run.commit() as conn:
        conn.execute(INSERT, ["linger", run.request_id, VERSION])


@scheduled(lease="20s", every="0.3s..0.6s", backoff="0.5s..1s")
async def fails(run: Run) -> None:
    """Fails before its transaction or in it, and never leaves a row."""
    if random.random() < 0.5:
        raise ValueError("as told")
    async with run.commit() as conn:
        await conn.execute(INSERT, ["fails", run.request_id, VERSION])
        raise ValueError("as told")


@scheduled(lease="20s", every="0.5s..1s", backoff="1s..2s")
async def refresh_opening_signals(run: Run) -> None:
    from opening_signals.job import refresh

    await refresh(run)


@action("note", lease="20s", every="0.3s..0.6s", backoff="0.5s..1s")
async def note(run: Run) -> None:
    await asyncio.sleep(random.uniform(0, 0.1))
    async with run.commit() as conn:
        await conn.execute(INSERT, [name_of(run), run.request_id, VERSION])


@action("bare", lease="20s")
async def bare(run: Run) -> None:
    with Path(os.environ["BARE_FILE"]).open("a") as file:
        file.write(f"{name_of(run)} {run.request_id} {VERSION}\n")
