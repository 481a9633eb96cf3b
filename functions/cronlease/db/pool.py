"""A bounded stack of open connections. Knows nothing of what a connection is.

Not psycopg_pool, for two reasons: its background workers stand still while a serverless CPU is frozen between
requests, and it answers "timeout" where a person needs to read "wrong password".
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

C = TypeVar("C")


class Pool(Generic[C]):
    """Hands out at most `size` connections; the last one given back is the first one taken."""

    def __init__(
        self,
        open_: Callable[[], Awaitable[C]],
        close: Callable[[C], Awaitable[None]],
        is_reusable: Callable[[C], bool],
        size: int,
    ) -> None:
        self._open = open_
        self._close = close
        self._is_reusable = is_reusable
        self._idle: list[C] = []
        self._closed = False
        self._slots = asyncio.Semaphore(size)

    async def take(self, *, fresh: bool = False) -> C:
        """An idle connection or a new one; fresh never answers an idle one."""
        await self._slots.acquire()
        if self._idle and not fresh:
            return self._idle.pop()
        try:
            return await self._open()
        except BaseException:
            self._slots.release()
            raise

    async def take_idle(self) -> C | None:
        """An idle connection without waiting, or None."""
        if not self._idle or self._slots.locked():
            return None
        # Free, so this does not wait and nobody comes in between.
        await self._slots.acquire()
        return self._idle.pop()

    async def give(self, connection: C) -> None:
        self._slots.release()
        if self._is_reusable(connection) and not self._closed:
            self._idle.append(connection)
        else:
            await self._close(connection)

    async def close(self) -> None:
        """Closes what is idle, and from then on whatever is given back."""
        self._closed = True
        await self.drain()

    async def drain(self) -> None:
        """Closes what is idle: after a server restart every one of them would fail once."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await self._close(connection)
