"""What a user would write: the functions that the acceptance tests serve."""

import asyncio
import time

from cronlease import Run, scheduled


@scheduled
async def tick(run: Run) -> None:
    """Leaves one row per committed run; can be asked to take its time or to fail."""
    await asyncio.sleep(float(run.args.get("sleep", 0)))
    if "fail" in run.args:
        raise ValueError(run.args["fail"] * run.args.get("times", 1))
    async with run.commit() as conn:
        await conn.execute("insert into effect values (%s)", [run.request_id])
        run.report(fetched=1, inserted=1)


@scheduled(lease="1m", every="1h..2h", backoff="3h..4h")
def tock(run: Run) -> None:
    """A plain function, and one that says its own times."""
    time.sleep(float(run.args.get("sleep", 0)))
    with run.commit() as conn:
        conn.execute("insert into effect values (%s)", [run.request_id])


@scheduled
async def tell(run: Run) -> None:
    """Writes nothing of its own: its end is all there is to commit."""
    run.report(fetched=1)
