"""The connection of a job that is not fenced: for reading and for staging."""

from typing import TYPE_CHECKING, Any

from cronlease.db.connection import Database
from cronlease.db.guard import lend
from cronlease.run.blocks import Blocks
from cronlease.settings import Limits

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection


class Lending:
    """`async with` lends a pooled connection, `with`, in a plain job's thread, opens one."""

    def __init__(self, database: Database, limits: Limits, blocks: Blocks) -> None:
        self._database = database
        self._limits = limits
        self._blocks = blocks
        self._open: Any = None
        self._lent: Any = None

    async def __aenter__(self) -> "AsyncConnection":
        self._open = self._database.lent(self._blocks.patience(self._limits))
        lent: AsyncConnection = self._begin(await self._open.__aenter__())
        return lent

    async def __aexit__(self, *_: object) -> None:
        self._end()
        await self._open.__aexit__(None, None, None)

    def __enter__(self) -> "Connection":
        self._open = self._database.connect()
        lent: Connection = self._begin(self._open)
        return lent

    def __exit__(self, *_: object) -> None:
        self._end()
        self._open.close()

    def _begin(self, conn: Any) -> Any:
        self._blocks.held += 1
        self._lent = lend(conn)
        return self._lent

    def _end(self) -> None:
        self._blocks.held -= 1
        self._lent.leave()
