"""Which source killed a run. A source that kills the process, say by filling its memory, must not do so in every run.

A fetch is noted before it begins, and the note is removed when the fetch is over, whatever the source sent.
- A source is a suspect when an abandoned run left a note of it. A run that ends in order, also by SIGTERM, writes its
  end, so its notes mean nothing.
- Suspects are fetched one at a time, after the others have been stored. That clears the innocent ones.
- A source that was fetched alone when its run was abandoned is blamed: this counts as a failure with its backoff, and
  it stays a suspect until a fetch of it is over.
A source whose entry in the file has changed since is not a suspect.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from cronlease.db.queries import load_queries
from opening_signals.feeds.model import Source
from opening_signals.source_result import SourceResult
from opening_signals.store.source_state import SourceState, definition

DIED = "the last run ended while it was being fetched"
_QUERIES = load_queries(Path(__file__).with_suffix(".sql"))


def blamed(sources: Sequence[Source], states: Mapping[str, SourceState]) -> list[SourceResult]:
    """The failures of sources that are not asked in this run, because they killed the last one."""
    guilty = [source for source in sources if states[source.name].died and states[source.name].alone]
    return [SourceResult(source, asked=True, error=DIED) for source in guilty]


def batches(asked: Sequence[Source], states: Mapping[str, SourceState]) -> list[list[Source]]:
    """First the sources that may be fetched together, then each suspect alone, those with an earlier answer first."""
    suspects = [source for source in asked if states[source.name].is_suspect]
    suspects.sort(key=lambda source: states[source.name].definition is None)
    others = [source for source in asked if source not in suspects]
    return [*([others] if others else []), *([suspect] for suspect in suspects)]


async def note_fetch(conn: AsyncConnection[Any], request_id: UUID, source: Source, *, alone: bool) -> None:
    """Notes that this run is about to fetch the source."""
    note = {"source": source.name, "definition": definition(source), "alone": alone, "request_id": request_id}
    await conn.execute(_QUERIES["note_fetch"], note)


async def end_fetch(conn: AsyncConnection[Any], request_id: UUID, source: Source) -> None:
    """Removes the note: the process survived the fetch."""
    await conn.execute(_QUERIES["end_fetch"], {"source": source.name, "request_id": request_id})
