"""Keeps the tasks of a job from ending the process: asyncio lets SystemExit and KeyboardInterrupt out of any task and
out of its event loop, and with the loop every other run ends.

A task that is created within a job's context runs in a shell that raises an ordinary error instead.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any

from cronlease.run.raised import contained

_of_a_job: ContextVar[bool] = ContextVar("of_a_job", default=False)


def contain_tasks() -> None:
    """From here on the tasks that are created in this context, and in those copied from it, are contained."""
    loop = asyncio.get_running_loop()
    factory = loop.get_task_factory()
    # Seen by each job: somebody else may have set a factory of their own since.
    if not isinstance(factory, _TaskFactory):
        loop.set_task_factory(_TaskFactory(factory))
    _of_a_job.set(True)


class _TaskFactory:
    """Makes tasks as the factory before it did."""

    def __init__(self, before: Callable[..., Any] | None) -> None:
        self._before = before

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        context = options.get("context")
        if _of_a_job.get() if context is None else context.get(_of_a_job, False):
            coro = Contained(coro)
        if self._before is None:
            return asyncio.Task(coro, loop=loop, **options)
        return self._before(loop, coro, **options)


class Contained(Coroutine[Any, Any, Any]):
    """A coroutine in all but what it raises. One that awaits it would do, too, but where a task is cancelled before
    its first step Python would warn of a coroutine that was never awaited."""

    def __init__(self, coro: Any) -> None:
        self._coro = coro

    def send(self, value: Any) -> Any:
        try:
            return self._coro.send(value)
        except (SystemExit, KeyboardInterrupt) as raised:
            raise contained(raised) from raised

    def throw(self, *error: Any) -> Any:
        try:
            return self._coro.throw(*error)
        except (SystemExit, KeyboardInterrupt) as raised:
            raise contained(raised) from raised

    def close(self) -> None:
        self._coro.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        result: Any = yield from self._coro.__await__()
        return result

    def __getattr__(self, name: str) -> Any:
        """Its name, its frame and what it awaits, for whoever shows the tasks of a loop."""
        return getattr(self._coro, name)
