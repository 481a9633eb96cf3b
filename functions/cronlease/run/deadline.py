"""Waits for an answer, but not for the end of a wait that was given up."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

T = TypeVar("T")

_LAST_LOOK_SECONDS = 0.1


async def within(timeout: timedelta, work: Coroutine[Any, Any, T]) -> T:
    """The result, or TimeoutError on time: cancelling a query on a dead network can itself take long, so that
    is not waited for."""
    task = asyncio.ensure_future(work)
    done: set[asyncio.Task[T]] = set()
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout.total_seconds())
        if not done:
            # A process that was paused finds the answer and the end of its time there at once: the answer counts.
            done, _ = await asyncio.wait({task}, timeout=_LAST_LOOK_SECONDS)
    finally:
        if not done:
            task.cancel()
            task.add_done_callback(lambda late: late.cancelled() or late.exception())
    if not done:
        raise TimeoutError
    return task.result()
