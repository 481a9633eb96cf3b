"""Which source a run died of. One that kills the process, say by filling its memory, must not do so in every run.

The rule: a fetch is noted before it begins, and its note is removed when it is over, whatever it gave.
- A source is suspected when its note was left by a run that was abandoned. A run that ends in order, by SIGTERM too,
  writes its end, so what it left says nothing.
- Suspects are fetched one at a time, after the others have been stored. Those that are innocent are cleared by that.
- A source that was fetched alone when its run was abandoned is blamed: this counts as a failure with its backoff, and
  it stays a suspect until a fetch of it is over.
An entry of the sources file that has changed since is not suspected.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from opening_signals.collect import Collected
from opening_signals.feeds.model import Source
from opening_signals.store.source_state import Memory, definition

DIED = "the last run ended while it was being fetched"
_HERE = Path(__file__).parent
_NOTE = (_HERE / "note_fetch.sql").read_bytes()
_END = (_HERE / "end_fetch.sql").read_bytes()


def blamed(sources: Sequence[Source], memories: Mapping[str, Memory]) -> list[Collected]:
    """The failures of those that are not asked in this run, because the last one died of them."""
    found = ((source, memories[source.name]) for source in sources)
    return [Collected(source, asked=True, error=DIED) for source, memory in found if memory.died and memory.alone]


def batches(asked: Sequence[Source], memories: Mapping[str, Memory]) -> list[list[Source]]:
    """Those that may be fetched together, and then each suspect by itself, first those that have answered before."""
    suspects = [source for source in asked if memories[source.name].is_suspect]
    suspects.sort(key=lambda source: memories[source.name].definition is None)
    others = [source for source in asked if source not in suspects]
    return [*([others] if others else []), *([suspect] for suspect in suspects)]


async def note(conn: AsyncConnection[Any], request_id: UUID, source: Source, *, alone: bool) -> None:
    """This run is about to fetch the source."""
    noted = {"source": source.name, "definition": definition(source), "alone": alone}
    await conn.execute(_NOTE, noted | {"request_id": request_id})


async def end(conn: AsyncConnection[Any], request_id: UUID, source: Source) -> None:
    """The fetch is over, and the process lives."""
    await conn.execute(_END, {"source": source.name, "request_id": request_id})
