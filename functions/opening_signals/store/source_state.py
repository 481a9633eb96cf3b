"""What is remembered of each source from run to run: its validators, its failures, and until when it is left alone.

The statements are in the .sql files beside this module. Written only in a fenced transaction.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from psycopg import AsyncConnection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from opening_signals.collect import Collected
from opening_signals.feeds import KINDS
from opening_signals.feeds.model import Source
from opening_signals.http.fetch import Validators

_HERE = Path(__file__).parent
_RECALL = (_HERE / "recall.sql").read_bytes()
_CLAIM = (_HERE / "claim.sql").read_bytes()
_LOCK = (_HERE / "lock.sql").read_bytes()
_GOOD = (_HERE / "remember_good.sql").read_bytes()
_BAD = (_HERE / "remember_bad.sql").read_bytes()
_LONGEST_ERROR = 1000
# To be changed when openings of any kind are made in another way: a feed that answers 304 would keep the old ones.
_READING = "2"


class Memory(NamedTuple):
    """What is remembered of one source; of one that is new, nothing. The time is for people to read, in UTC, and
    only there while it has not come. Died: the run that fetched it last was abandoned meanwhile; alone: it was, or is
    to be, fetched while nothing else is (see suspects)."""

    name: str
    definition: str | None = None
    failures: int = 0
    last_error: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    waits_until: str | None = None
    fetching_definition: str | None = None
    died: bool = False
    alone: bool = False

    @property
    def is_suspect(self) -> bool:
        return self.died or self.alone

    @property
    def validators(self) -> Validators:
        return Validators(self.etag, self.last_modified)


async def recall(conn: AsyncConnection[Any], sources: Sequence[Source]) -> dict[str, Memory]:
    """The memory of each source by its name. One whose entry in the file has changed since is new: whoever mended
    an address need not wait."""
    async with conn.cursor(row_factory=class_row(Memory)) as cursor:
        await cursor.execute(_RECALL, {"sources": [source.name for source in sources]})
        found = {memory.name: memory async for memory in cursor}
    return {source.name: _of_entry(found.get(source.name), source) for source in sources}


def _of_entry(memory: Memory | None, source: Source) -> Memory:
    """What is remembered of the source as the file has it now."""
    if memory is None:
        return Memory(source.name)
    now = definition(source)
    if memory.fetching_definition != now:
        memory = memory._replace(died=False, alone=False)
    return memory if memory.definition == now else Memory(source.name, died=memory.died, alone=memory.alone)


async def lock(conn: AsyncConnection[Any], names: Iterable[str]) -> None:
    """Takes the rows of these sources until the caller's transaction ends; those that have none get one. All that
    the transaction will write of, at once: two writers of one source take turns and never deadlock."""
    sources = {"sources": list(names)}
    await conn.execute(_CLAIM, sources)
    await conn.execute(_LOCK, sources)


async def remember(
    conn: AsyncConnection[Any], results: Iterable[Collected], wait: Callable[[str], timedelta]
) -> None:
    """How each of these sources, whose rows are locked, did in this run; wait says how long one that failed is left
    alone. One that was not asked has not failed."""
    good, bad = [], []
    for result in (each for each in results if each.asked):
        one: dict[str, Any] = {"name": result.source.name, "definition": definition(result.source)}
        if result.error:
            seconds = wait(result.source.name).total_seconds()
            error = result.error[:_LONGEST_ERROR].replace("\0", "")
            bad.append(one | {"error": error, "delay": f"{seconds} s"})
        else:
            items = None if result.not_modified else result.openings
            good.append(one | {"items": items, **result.validators._asdict()})
    for statement, entries in ((_GOOD, good), (_BAD, bad)):
        if entries:
            await conn.execute(statement, {"results": Jsonb(entries)})


def definition(source: Source) -> str:
    """Equal for two entries exactly when they ask the same of the same address and read it in the same way. A hash:
    an address may be secret."""
    said = (_READING, source.model_dump_json(), KINDS[source.kind].reading(source))
    return hashlib.sha256("\0".join(said).encode()).hexdigest()
