"""The event loop of a process that runs a job and ends, even if the job left tasks or threads behind."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_CLOSE_SECONDS = 0.5


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, but does not wait for tasks and threads of a job that do not end: see leave_behind."""
    loop, before = asyncio.new_event_loop(), set(threading.enumerate())
    try:
        return loop.run_until_complete(main)
    finally:
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=_CLOSE_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
        # The loop would complain about tasks that are left.
        loop.set_exception_handler(lambda *_: None)
        loop.close()
        _left.extend(thread for thread in threading.enumerate() if not thread.daemon and thread not in before)


_left: list[threading.Thread] = []


def leave_behind(status: int) -> None:
    """Ends the process if threads of a job would keep it alive: their runs are over, and others wait for the end."""
    ends_at = time.monotonic() + _CLOSE_SECONDS
    for thread in _left:
        thread.join(max(0.0, ends_at - time.monotonic()))
    if any(thread.is_alive() for thread in _left):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
