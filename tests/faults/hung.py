"""Functions that hang when they are asked to, each in its own way."""

import asyncio
import contextlib
import threading
import time

from cronlease import Run, scheduled


async def leave_a_trace(run: Run) -> None:
    async with run.commit() as conn:
        await conn.execute("insert into effect values (%s, %s)", [run.function, run.request_id])


@scheduled
async def waits(run: Run) -> None:
    if "hang" in run.args:
        await asyncio.Event().wait()
    await leave_a_trace(run)


@scheduled
def sleeps(run: Run) -> None:
    if "hang" in run.args:
        threading.Event().wait()
    with run.commit() as conn:
        conn.execute("insert into effect values (%s, %s)", [run.function, run.request_id])


@scheduled
async def blocks(run: Run) -> None:
    """Nothing else happens in its process any more, not even the end of this run."""
    if "hang" in run.args:
        while True:
            time.sleep(1)
    await leave_a_trace(run)


@scheduled
async def lingers(run: Run) -> None:
    """For a process that lets a run be as old as it likes."""
    if "hang" in run.args:
        await asyncio.Event().wait()
    await leave_a_trace(run)


@scheduled
async def refuses(run: Run) -> None:
    """Does not let itself be cancelled."""
    while "hang" in run.args:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1)
    await leave_a_trace(run)


@scheduled
async def delegates(run: Run) -> None:
    """Can be cancelled, but its thread goes on."""
    if "hang" in run.args:
        await asyncio.to_thread(threading.Event().wait)
    await leave_a_trace(run)


@scheduled
def holds(run: Run) -> None:
    """Takes its time with its transaction open, and commits then."""
    with run.commit() as conn:
        conn.execute("insert into effect values (%s, %s)", [run.function, run.request_id])
        time.sleep(6 if "hang" in run.args else 0)


@scheduled
def queries(run: Run) -> None:
    """The same in the midst of a statement."""
    with run.commit() as conn:
        conn.execute("insert into effect values (%s, %s)", [run.function, run.request_id])
        conn.execute("select pg_sleep(%s)", [6 if "hang" in run.args else 0])


@scheduled
async def insists(run: Run) -> None:
    """The same, and does not let itself be cancelled."""
    async with run.commit() as conn:
        await conn.execute("insert into effect values (%s, %s)", [run.function, run.request_id])
        ends_at = time.monotonic() + (6 if "hang" in run.args else 0)
        while time.monotonic() < ends_at:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.1)


@scheduled
async def other(run: Run) -> None:
    """For the process that takes over."""
    await leave_a_trace(run)
