"""Sources that are no longer in the file. Nobody sees their openings any more, and none is closed for that: a typo in
a file must not cost what is known. They are named until a person forgets them.

The statements are in the .sql files beside this module.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection, Connection

_HERE = Path(__file__).parent
_STRAYS = (_HERE / "strays.sql").read_bytes()
_KNOWN = (_HERE / "known.sql").read_bytes()
_CLAIM = (_HERE / "claim.sql").read_bytes()
_LOCK = (_HERE / "lock.sql").read_bytes()
_FORGET = (_HERE / "forget.sql").read_bytes()
_COUNTED = 1000

Stray = tuple[str, int]


async def strays(conn: AsyncConnection[Any], names: Iterable[str]) -> list[Stray]:
    """The sources that were asked before and are not among these names, with their open openings, counted to 1000."""
    return await (await conn.execute(_STRAYS, {"sources": list(names)})).fetchall()


def strays_now(conn: Connection[Any], names: Iterable[str]) -> list[Stray]:
    """The same, for the command line."""
    return conn.execute(_STRAYS, {"sources": list(names)}).fetchall()


def sentence(found: Sequence[Stray]) -> str | None:
    """One sentence on them, when there are any."""
    if not found:
        return None
    each = ", ".join(f"{name} ({count if count < _COUNTED else f'{_COUNTED} or more'})" for name, count in found)
    return f"open openings of sources that are not in the file: {each}; cronlease sources forget NAME closes them"


def is_known(conn: Connection[Any], name: str) -> bool:
    row = conn.execute(_KNOWN, {"source": name}).fetchone()
    return row is not None and bool(row[0])


def forget(conn: Connection[Any], name: str) -> int:
    """Closes the open openings of the source and forgets what is remembered of it; says how many closed. Takes its
    row as a merge does: a run that is writing of it comes first, and then this."""
    with conn.transaction():
        conn.execute("select set_config('lock_timeout', '15s', true)")
        conn.execute(_CLAIM, {"sources": [name]})
        conn.execute(_LOCK, {"sources": [name]})
        row = conn.execute(_FORGET, {"source": name}).fetchone()
    assert row is not None, "an aggregate answers one row"
    return int(row[0])
