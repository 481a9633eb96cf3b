"""The ends of runs that need no transaction of their own: those that come within a few milliseconds of each other are
written in one commit. Each is fenced by itself, and one that cannot be written harms no other."""

import asyncio
from datetime import timedelta
from typing import NamedTuple
from weakref import WeakKeyDictionary

from cronlease.db.batches import finish_refresh_runs
from cronlease.db.connection import Database, within
from cronlease.db.functions import Finish
from cronlease.db.queries import Query
from cronlease.errors import ConnectionLost, DatabaseTrouble, LeaseLost, Unreachable
from cronlease.run.heartbeat import heartbeat_of

_GATHERED_SECONDS = 0.002
_MOST = 500


class _End(NamedTuple):
    query: Query[Finish]
    limit: timedelta
    written: asyncio.Future[Finish]


class Ends:
    """Gathers and writes the ends of one database's runs, on one event loop."""

    def __init__(self) -> None:
        self._gathered: list[_End] = []
        self._flushing: asyncio.Task[None] | None = None
        self._alone: set[asyncio.Task[None]] = set()

    async def write(self, query: Query[Finish], database: Database, limit: timedelta) -> Finish:
        """Raises as the query would, and TimeoutError."""
        end = _End(query, limit, asyncio.get_running_loop().create_future())
        self._gathered.append(end)
        if self._flushing is None:
            self._flushing = asyncio.ensure_future(self._flush(database))
        return await end.written

    async def _flush(self, database: Database) -> None:
        """Writes until nothing is left. One batch at a time: what comes meanwhile makes the next one larger, and a
        slow database is not asked for more connections."""
        ends: list[_End] = []
        try:
            while self._gathered:
                # Where no other run is in progress there is nothing to wait for.
                await asyncio.sleep(_GATHERED_SECONDS if len(heartbeat_of(database)) else 0)
                ends, self._gathered = self._gathered[:_MOST], self._gathered[_MOST:]
                await self._write([end for end in ends if not end.written.done()], database)
                ends = []
        finally:
            self._flushing = None
            # After a cancellation, for instance: no run waits for an answer that never comes.
            unsent, self._gathered = [*ends, *self._gathered], []
            for end in unsent:
                _settle(end, ConnectionLost("the end of the run was not sent"))

    async def _write(self, ends: list[_End], database: Database) -> None:
        """Those that the batch cannot write are written each by itself, and no other run waits for them."""
        answers: dict[str, Finish | None] = {}
        if len(ends) > 1:
            try:
                query = finish_refresh_runs([end.query for end in ends])
                answers = await within(max(end.limit for end in ends), database.ask_at_the_end(query))
            except (ConnectionLost, Unreachable, TimeoutError) as trouble:
                for end in ends:
                    _settle(end, trouble)
                return
            except DatabaseTrouble:
                # One of them cannot be written: only that one is to fail.
                pass
        for end in ends:
            request_id = str(end.query.params["p_request_id"])
            if request_id in answers:
                _settle(end, answers[request_id] or LeaseLost(f"run {request_id} no longer holds its lease"))
            else:
                task = asyncio.ensure_future(_write_alone(end, database))
                self._alone.add(task)
                task.add_done_callback(self._alone.discard)


async def _write_alone(end: _End, database: Database) -> None:
    try:
        written = await within(end.limit, database.ask_at_the_end(end.query))
        _settle(end, written)
    except Exception as trouble:
        _settle(end, trouble)
    finally:
        _settle(end, ConnectionLost("the end of the run was not sent"))


def _settle(end: _End, answer: Finish | Exception) -> None:
    """Answers the run, unless it was cancelled meanwhile."""
    if end.written.done():
        return
    if isinstance(answer, Exception):
        end.written.set_exception(answer)
    else:
        end.written.set_result(answer)


_ends: "WeakKeyDictionary[Database, Ends]" = WeakKeyDictionary()


def ends_of(database: Database) -> Ends:
    """This process's Ends for the database, which belongs to one event loop."""
    ends = _ends.get(database)
    if ends is None:
        ends = _ends[database] = Ends()
    return ends
