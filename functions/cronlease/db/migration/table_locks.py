"""The tables and views that migrate changes: locked together, before the first of them is changed, while runs go on.

Whoever waits for such a lock makes everybody behind it wait as well. So migrate asks for it briefly and often, and
lets go of all of them between two tries: a run that holds one can always take the next.
"""

import random
import time
from collections.abc import Iterable
from typing import Any

from cronlease.db.ask import send_sync
from cronlease.db.questions import Questions
from cronlease.db.schema import schema
from cronlease.errors import Contended

_ask = Questions(__file__)
# Below the second after which the server looks for deadlocks, and the two that a run waits for a lock.
_ONE_TRY = "300ms"
_ALL_TRIES = 30.0
_PAUSE = (0.1, 0.4)
# By kind of relation. `lock table` would also lock what a view reads, such as pg_locks, which only a superuser may.
# The option is one that we never set; replacing the view resets it as well.
_LOCK = {"r": "lock table {} in access exclusive mode", "v": "alter view {} reset (security_barrier)"}


def lock_tables(conn: Any, names: Iterable[str]) -> None:
    """Locks those of the tables and views that are there, until the transaction ends. The order is the one in which
    hits and runs take them: views before tables, the schedule first. Raises Contended after 30 s."""
    present = _ask(conn, "present", names=list(names))
    locks = "; ".join(_LOCK[kind].format(f"{schema()}.{name}") for name, kind in present)
    gives_up_at = time.monotonic() + _ALL_TRIES
    while locks and not _locked(conn, locks, last=time.monotonic() > gives_up_at):
        time.sleep(random.uniform(*_PAUSE))  # noqa: S311


def _locked(conn: Any, locks: str, *, last: bool) -> bool:
    send_sync(conn, f"savepoint tables; set local lock_timeout = '{_ONE_TRY}'")
    try:
        send_sync(conn, locks)
    except Contended:
        # Runs hold one of them; all are free again for whoever waited behind us.
        send_sync(conn, "rollback to savepoint tables; release savepoint tables")
        if last:
            raise
        return False
    send_sync(conn, "set local lock_timeout = '5s'; release savepoint tables")
    return True
