"""Runs a job under its lease, with a heartbeat beside it, and ends it when the lease or the time is gone.

Knows nothing of schedules or answers: it returns how the job ended, and the finisher writes that down. Whatever a job
raises ends its run and nothing else: asyncio lets SystemExit and KeyboardInterrupt out of any task and out of its
event loop, and with the loop every other run ends. So a task that is created within a job's context runs in a shell
that raises an ordinary error instead.
"""

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from cronlease.observe.logs import log
from cronlease.observe.redact import text_of
from cronlease.process.shutdown import process
from cronlease.run.heartbeat import heartbeat_of
from cronlease.run.lease import Lease
from cronlease.run.record import Blocks, Record

# While the process is stopping: the end of the run, too, has to be written in the time that shutdown leaves.
_LAST_GRACE_SECONDS = 1.0
# On a dead network a cancellation can take long.
_CUT_SECONDS = 0.5

_of_a_job: ContextVar[bool] = ContextVar("of_a_job", default=False)


async def supervise(job: Callable[[Any], Any], run: Any, record: Record) -> BaseException | None:
    """The job's error, or None when it returned. A job that was cancelled here ends with CancelledError."""
    lease, blocks = record.lease, record.blocks
    nudge = _Nudge()

    def interrupt() -> None:
        lease.interrupt()
        nudge.here()

    # A decorator may hide that the function is async: the function inside it counts.
    is_async = inspect.iscoroutinefunction(inspect.unwrap(job))
    heartbeat = heartbeat_of(record.database)
    try:
        # Before the job starts: it must not run unsupervised.
        heartbeat.keep(lease, record.database, nudge.from_a_thread)
        task = asyncio.ensure_future(_on_the_loop(job, run)) if is_async else _in_thread(job, run)
    except RuntimeError as error:
        heartbeat.let_go(lease)
        return RuntimeError(f"the job was not started: {error}")
    try:
        with process.interruptible(interrupt):
            await _until_done(task, lease, nudge)
            if not task.done():
                await _end(task, lease, cancel=is_async)
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        heartbeat.let_go(lease)
    if not task.done():
        # It ignores cancellation, or is a thread: the fence keeps whatever it still does from counting. Its open
        # transaction has the row, which is needed to write the end.
        task.add_done_callback(_say_late)
        await _cut(run, lease, blocks)
        return asyncio.CancelledError()
    if blocks.open is not None:
        # In a generator, or in a task that nobody waited for.
        blocks.abandoned = f"the job returned while {blocks.open} was still open: leave the block first"
        await _cut(run, lease, blocks)
    return asyncio.CancelledError() if task.cancelled() else task.exception()


class _Nudge:
    """Wakes whoever waits for the job, from the heartbeat's thread or from the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.arrived: asyncio.Future[None] = self._loop.create_future()

    def here(self) -> None:
        if not self.arrived.done():
            self.arrived.set_result(None)

    def from_a_thread(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.here)

    def again(self) -> None:
        if self.arrived.done():
            self.arrived = self._loop.create_future()


async def _until_done(task: asyncio.Future[Any], lease: Lease, nudge: _Nudge) -> None:
    """Waits until the job is done, its lease or its time is gone, or the process is stopping."""
    while not task.done():
        left = min(lease.seconds_left, lease.seconds_to_stop)
        await asyncio.wait({task, nudge.arrived}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if lease.lost or lease.overdue or lease.interrupted:
            return
        nudge.again()


async def _end(task: asyncio.Future[Any], lease: Lease, *, cancel: bool) -> None:
    """A job on the event loop is cancelled; a plain one can only be given time to notice in run.check()."""
    grace = lease.limits.grace.total_seconds()
    if lease.interrupted:
        grace = min(grace, _LAST_GRACE_SECONDS)
    if lease.committing:
        await asyncio.wait({task}, timeout=grace)
    if cancel:
        task.cancel()
    await asyncio.wait({task}, timeout=grace)


async def _cut(run: Any, lease: Lease, blocks: Blocks) -> None:
    """Takes the open transaction away from a job whose run is over."""
    lease.give_up()
    # If no thread can be started, the server ends that transaction when its time limit is over.
    with suppress(RuntimeError):
        await asyncio.wait({_in_thread(lambda _: blocks.cut(), run)}, timeout=_CUT_SECONDS)


async def _on_the_loop(job: Callable[[Any], Any], run: Any) -> None:
    """Runs the job on the event loop, which sys.exit() and the like would end, and every other run with it."""
    _contain_tasks()
    try:
        await job(run)
    except (SystemExit, KeyboardInterrupt) as raised:
        raise _contained(raised) from raised


def _in_thread(job: Callable[[Any], Any], run: Any) -> asyncio.Future[None]:
    """A plain job in a thread of its own: a daemon, so that one that hangs cannot keep the process alive."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    context = contextvars.copy_context()

    def settle(error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def work() -> None:
        error: BaseException | None = None
        try:
            returned = context.run(job, run)
            if inspect.isawaitable(returned):
                if inspect.iscoroutine(returned):
                    returned.close()
                raise TypeError(
                    "the job returned something to await instead of doing its work: declare it with async def"
                )
        except BaseException as raised:
            error = _contained(raised)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=work, name=f"job {run.request_id}", daemon=True).start()
    return future


def _say_late(task: asyncio.Future[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log(logging.WARNING, f"A job ended after its run was over: {text_of(error)}", action="job_ended_late")


def _contained(error: BaseException) -> BaseException:
    """The error, or one to raise instead of it, if it would end the event loop."""
    if isinstance(error, SystemExit):
        text = "the job called sys.exit(): it shares its process with others, so let it return or raise"
    elif isinstance(error, KeyboardInterrupt | StopIteration):
        text = f"the job raised {type(error).__name__}"
    else:
        return error
    instead = RuntimeError(text)
    instead.__cause__ = error
    return instead


def _contain_tasks() -> None:
    """From here on the tasks that are created in this context, and in those copied from it, are contained."""
    loop = asyncio.get_running_loop()
    factory = loop.get_task_factory()
    # Checked for each job: somebody else may have set a factory of their own since.
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
            coro = _Contained(coro)
        if self._before is None:
            return asyncio.Task(coro, loop=loop, **options)
        return self._before(loop, coro, **options)


class _Contained(Coroutine[Any, Any, Any]):
    """The coroutine itself, except for what it raises. A second coroutine that awaits it would do, too, but if a task
    were cancelled before its first step, Python would warn that the first was never awaited."""

    def __init__(self, coro: Any) -> None:
        self._coro = coro

    def send(self, value: Any) -> Any:
        try:
            return self._coro.send(value)
        except (SystemExit, KeyboardInterrupt) as raised:
            raise _contained(raised) from raised

    def throw(self, *error: Any) -> Any:
        try:
            return self._coro.throw(*error)
        except (SystemExit, KeyboardInterrupt) as raised:
            raise _contained(raised) from raised

    def close(self) -> None:
        self._coro.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        result: Any = yield from self._coro.__await__()
        return result

    def __getattr__(self, name: str) -> Any:
        """Its name, its frame and what it awaits, for whoever shows the tasks of a loop."""
        return getattr(self._coro, name)
