"""A job that only mutual exclusion keeps right: it reads, takes its time, and writes what it read plus one."""

import asyncio
import os

from cronlease import Run, scheduled
from cronlease.run.lease import Lease

if "UNGUARDED" in os.environ:
    # For the negative control: a run that never notices that its lease is over.
    Lease.lost = property(lambda _: False)  # type: ignore[assignment, method-assign]


@scheduled
async def tick(run: Run) -> None:
    async with run.connection() as conn:
        row = await (await conn.execute("select n from tally")).fetchone()
        assert row is not None, "there is a tally"
    await asyncio.sleep(float(run.args.get("sleep", 0)))
    async with run.commit() as conn:
        await conn.execute("update tally set n = %s", [row[0] + 1])
        await conn.execute("insert into effect values (%s)", [run.request_id])
