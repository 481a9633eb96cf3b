"""The fast path: one prepared query on an open connection, straight through libpq.

A cursor adapts its parameters and its row anew for every query, which costs as much as the rest of a skip together.
Whatever is not a plain answer is left to `ask`: each of our functions may be asked twice.
"""

import asyncio
import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from psycopg import AsyncConnection, AsyncCursor, Error
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus

from cronlease.db.queries import Query, interval
from cronlease.db.sqlstate import unreadable

T = TypeVar("T")

_WRITTEN: dict[type, Callable[[Any], bytes | None]] = {
    str: str.encode,
    UUID: lambda value: str(value).encode(),
    bool: lambda value: b"t" if value else b"f",
    timedelta: functools.cache(lambda value: interval(value).encode()),
    type(None): lambda _: None,
}


class Prepared(NamedTuple):
    """A query that the server knows by name, and what reads its row."""

    name: bytes
    transformer: Any


class PooledConnection(AsyncConnection[Any]):
    """A connection that can also be asked on the fast path."""

    @functools.cached_property
    def own_cursor(self) -> AsyncCursor[Any]:
        """One for all of our own queries: a new cursor would look up every type again."""
        return self.cursor()

    @functools.cached_property
    def _known(self) -> dict[str, Prepared]:
        return {}

    async def ask_swiftly(self, query: Query[T], seconds: float) -> T | None:
        """The answer, or None where the server sends anything but a row: then the connection is closed. Raises
        Unreadable, or TimeoutError, after which the pool does not use the connection again."""
        deadline = asyncio.get_running_loop().time() + seconds
        known = result = None
        try:
            known = self._known.get(query.text) or await self._prepare(query, deadline)
            if known is not None:
                parameters = [_WRITTEN[type(value)](value) for value in query.params.values()]
                self.pgconn.send_query_prepared(known.name, parameters)
                result = await self._result(deadline)
        except Error:
            result = None
        if known is None or result is None or result.status != ExecStatus.TUPLES_OK:
            self.pgconn.finish()
            return None
        try:
            known.transformer.set_pgresult(result)
            return query.read(known.transformer.load_row(0, tuple))
        except Exception as error:
            raise unreadable(error) from error

    async def _prepare(self, query: Query[Any], deadline: float) -> Prepared | None:
        known = Prepared(b"cronlease_%d" % len(self._known), Transformer(self))
        text = query.text % {name: f"${place}" for place, name in enumerate(query.params, start=1)}
        self.pgconn.send_prepare(known.name, text.encode())
        result = await self._result(deadline)
        if result is None or result.status != ExecStatus.COMMAND_OK:
            return None
        self._known[query.text] = known
        return known

    async def _result(self, deadline: float) -> Any:
        """The one result of what was sent, once the server is ready for the next; None when it could not be sent."""
        pgconn, last = self.pgconn, None
        if pgconn.flush() != 0:
            return None
        while True:
            while pgconn.is_busy():
                await self._readable(deadline)
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                return last
            last = result

    async def _readable(self, deadline: float) -> None:
        """Until something has arrived. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[None] = loop.create_future()
        descriptor = self.pgconn.socket
        loop.add_reader(descriptor, _settle, arrived, None)
        timer = loop.call_at(deadline, _settle, arrived, TimeoutError())
        try:
            await arrived
        finally:
            timer.cancel()
            loop.remove_reader(descriptor)


def _settle(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
