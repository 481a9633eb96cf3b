"""`try_acquire_action_lock`: the advisory lock of a claim, for a caller's own transaction."""

import logging
from collections.abc import Awaitable
from typing import Any, overload

from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus

from cronlease.db.ask import ask, ask_sync
from cronlease.db.queries import Query
from cronlease.db.schema import in_schema
from cronlease.observe.logs import log

_IN_TRANSACTION = (TransactionStatus.INTRANS, TransactionStatus.INERROR)


@overload
def try_acquire_action_lock(conn: Connection[Any] | None, action_id: int) -> bool: ...


@overload
def try_acquire_action_lock(conn: AsyncConnection[Any], action_id: int) -> Awaitable[bool]: ...


def try_acquire_action_lock(
    conn: AsyncConnection[Any] | Connection[Any] | None, action_id: int
) -> bool | Awaitable[bool]:
    """True if nobody else can claim the schedule with this id until the caller's open transaction ends. It is the
    lock that a claim takes, so write what it protects in this transaction. Never waits, and fails closed: the answer
    is False after an error, and on a connection outside a transaction, where the lock would be gone before the answer
    arrives. None stands for a single instance without a shared database: True. Awaitable on an async connection."""
    if conn is None:
        return True
    if isinstance(conn, AsyncConnection):
        return _try_lock(conn, action_id)
    try:
        return _opens_transaction(conn) and ask_sync(conn, _action_lock(action_id))
    except Exception as error:
        return _no_lock(error)


async def _try_lock(conn: AsyncConnection[Any], action_id: int) -> bool:
    try:
        return _opens_transaction(conn) and await ask(conn, _action_lock(action_id))
    except Exception as error:
        return _no_lock(error)


def _action_lock(action_id: int) -> Query[bool]:
    return Query(
        in_schema("select pg_catalog.pg_try_advisory_xact_lock(public.refresh_lock_key('claim'), %(id)s::integer)"),
        {"id": action_id},
        lambda row: row[0] is True,
    )


def _opens_transaction(conn: AsyncConnection[Any] | Connection[Any]) -> bool:
    """Whether the next query runs in a transaction that stays open: without autocommit the driver begins one."""
    return conn.info.transaction_status in _IN_TRANSACTION or not conn.autocommit


def _no_lock(error: Exception) -> bool:
    log(logging.ERROR, f"Could not ask for the lock of the action: {error}", action="action_lock_failed")
    return False
