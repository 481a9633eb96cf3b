"""Actions that a worker runs many of at the same time: one with a transaction of its own, one without, and one that
kills its process."""

import asyncio
import os
from pathlib import Path

from cronlease import Run, action


async def linger(run: Run) -> None:
    """For as long as a file is there."""
    while "linger" in run.args and Path(run.args["linger"]).exists():
        await asyncio.sleep(0.02)


@action("bare")
async def bare(run: Run) -> None:
    await linger(run)


@action("writing")
async def writing(run: Run) -> None:
    await linger(run)
    async with run.commit() as conn:
        await conn.execute("insert into effect values (%s, %s)", [run.function, run.request_id])


@action("killing")
async def killing(run: Run) -> None:
    # By then the runs that were claimed with it have begun.
    await asyncio.sleep(0.3)
    os._exit(9)
