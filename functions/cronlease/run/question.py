"""Many hits, one question: hits at a function that arrive while a question for it is on its way wait for the next,
and its answer serves all of them.

A skip is the answer to all of them, because it was read after each had arrived. A claim belongs to the first hit, and
the others are locked by it. So each answer is as true as the answer to a question of the hit's own, and a storm of
hits costs two round trips.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, NamedTuple

from cronlease.db.functions import Claim
from cronlease.outcome import SkipReason
from cronlease.run.attempt import Attempt

# A question that takes longer no longer holds back the next: one slow answer must not delay every later hit.
_HOLDS_BACK_SECONDS = 0.25
# A process that was paused sees the answer and the end of its time in the same moment: the answer counts.
_GRACE_SECONDS = 0.1

# Only lines with a question on its way. A database belongs to one event loop, and it is part of each key.
_lines: dict[Hashable, "_Line"] = {}
# The event loop itself keeps only weak references to its tasks.
_tasks: set[asyncio.Task[Any]] = set()


class Ask(NamedTuple):
    """How a hit asks for its lease, what it answers when that takes too long, and how it gives back a lease that it
    cannot use."""

    attempt: Attempt
    claim: Callable[[], Coroutine[Any, Any, Claim]]
    timed_out: Callable[[], Claim]
    release: Callable[[], "asyncio.Task[None] | None"]


class _Hit(NamedTuple):
    ask: Ask
    answer: asyncio.Future[Claim]


async def share(key: Hashable, ask: Ask) -> Claim:
    """The answer to the first question of this key that is sent from now on. Raises what asking raises."""
    answer: asyncio.Future[Claim] = asyncio.get_running_loop().create_future()
    line = _lines.get(key)
    if line is None:
        line = _lines[key] = _Line(key)
    line.join(_Hit(ask, answer))
    try:
        return await answer
    except asyncio.CancelledError:
        if answer.done() and not answer.cancelled() and answer.result().acquired:
            # The claim arrived in the same moment as the cancellation.
            ask.release()
        raise


class _Line:
    """The hits of one key: those that a question on its way answers, and those that wait for the next."""

    def __init__(self, key: Hashable) -> None:
        self._key = key
        self._waiting: list[_Hit] = []
        self._newest: _Question | None = None
        self._timer: asyncio.TimerHandle | None = None

    def join(self, *hits: _Hit) -> None:
        self._waiting += hits
        if self._newest is None:
            self._send()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._newest.sent_at + _HOLDS_BACK_SECONDS, self._send)

    def _send(self) -> None:
        """Asks for all hits that still wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        hits = [hit for hit in self._waiting if not hit.answer.done()]
        self._waiting = []
        if hits:
            self._newest = _Question(hits, self)
        elif self._newest is None and _lines.get(self._key) is self:
            del _lines[self._key]

    def answered(self, question: "_Question") -> None:
        if self._newest is question:
            self._newest = None
            self._send()


class _Question:
    """One question on its way. The first of its hits asks it, in a task of its own: cancelling a hit never cancels
    the question."""

    def __init__(self, hits: Sequence[_Hit], line: _Line) -> None:
        loop = asyncio.get_running_loop()
        self.sent_at = loop.time()
        self._hits = hits
        self._line = line
        self._first = first = hits[0].ask
        waited = time.monotonic() - first.attempt.asked_at
        self._timer = loop.call_later(first.attempt.limits.acquire.total_seconds() - waited, self._expire)
        self._task = _kept(first.claim())
        self._task.add_done_callback(self._answered)

    def _expire(self, *, grace_is_over: bool = False) -> None:
        if not grace_is_over:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_GRACE_SECONDS, lambda: self._expire(grace_is_over=True))
            return
        # Cancelling a query on a dead network can itself take long: nobody waits for that.
        self._task.cancel()
        self._settle(self._first.timed_out())

    def _answered(self, task: asyncio.Task[Claim]) -> None:
        self._timer.cancel()
        if task.cancelled():
            for hit in self._hits:
                hit.answer.cancel()
        elif (error := task.exception()) is not None:
            for hit in self._hits:
                if not hit.answer.done():
                    hit.answer.set_exception(error)
        elif task.result().acquired and self._hits[0].answer.done():
            _kept(self._ask_again(self._hits[1:]))
            return
        else:
            self._settle(task.result())
        self._line.answered(self)

    def _settle(self, claimed: Claim) -> None:
        first, *others = self._hits
        if not first.answer.done():
            first.answer.set_result(claimed)
        if claimed.acquired:
            locked_by, locked_until = str(first.ask.attempt.request_id), claimed.locked_until
            claimed = Claim(False, SkipReason.LOCKED, None, locked_by, locked_until, *[None] * 5)
        for hit in others:
            if not hit.answer.done():
                hit.answer.set_result(claimed)

    async def _ask_again(self, others: Sequence[_Hit]) -> None:
        """The hit that asked is gone, and nobody else may run under its request ID: its lease is freed before anybody
        asks again."""
        if (released := self._first.release()) is not None:
            await asyncio.wait({released}, timeout=_HOLDS_BACK_SECONDS)
        self._line.join(*others)
        self._line.answered(self)


def _kept(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task = asyncio.get_running_loop().create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task
