"""The state of each source between runs: its validators, its failures, and until when it is left alone.

Written only in a fenced transaction.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from psycopg import AsyncConnection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from cronlease.db.queries import load_queries
from opening_signals.feeds import KINDS
from opening_signals.feeds.model import Source
from opening_signals.http.fetch import Validators
from opening_signals.source_result import SourceResult

_QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
_LONGEST_ERROR = 1000
# Change it when the code makes openings differently: a feed that answers 304 would keep the old ones.
_READING = "3"


class SourceState(NamedTuple):
    """The state of one source; a new one has the defaults. `waits_until` is for people to read, in UTC, and None once
    that time has passed. `died`: the run that fetched it last was abandoned. `alone`: it was, or is to be, fetched
    while nothing else is (see suspects). `known`: it has answered before. `doubted`: its last answer was too
    unlikely to close anything. `asked_to_wait`: the source itself asked to be left alone until then."""

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
    known: bool = False
    doubted: bool = False
    asked_to_wait: bool = False

    @property
    def is_suspect(self) -> bool:
        return self.died or self.alone

    @property
    def rests(self) -> bool:
        """Whether it asked to be left alone, which holds for every run."""
        return self.asked_to_wait and self.waits_until is not None

    @property
    def validators(self) -> Validators:
        return Validators(self.etag, self.last_modified)


async def load_source_states(conn: AsyncConnection[Any], sources: Sequence[Source]) -> dict[str, SourceState]:
    """The state of each source by name. A source whose entry in the file has changed counts as new, so that a
    corrected address is fetched immediately."""
    async with conn.cursor(row_factory=class_row(SourceState)) as cursor:
        await cursor.execute(_QUERIES["load_source_state"], {"sources": [source.name for source in sources]})
        stored = {state.name: state async for state in cursor}
    return {source.name: _of_entry(source, stored.get(source.name)) for source in sources}


def _of_entry(source: Source, state: SourceState | None) -> SourceState:
    """The part of the stored state that still applies to the entry in the file."""
    if state is None:
        return SourceState(source.name)
    now = definition(source)
    if state.fetching_definition != now:
        state = state._replace(died=False, alone=False)
    return state if state.definition == now else SourceState(source.name, died=state.died, alone=state.alone)


async def record_results(
    conn: AsyncConnection[Any],
    results: Iterable[SourceResult],
    wait: Callable[[str], timedelta],
    doubts: Mapping[str, str],
) -> None:
    """Records the results of these sources, whose rows are locked. `wait` returns how long a failed source is left
    alone if it did not say so itself. A source that was not asked has not failed. `doubts` has the reason for each
    source whose answer must be confirmed by another run."""
    successes, failures = [], []
    for result in (each for each in results if each.asked):
        entry: dict[str, Any] = {"name": result.source.name, "definition": definition(result.source)}
        if result.error:
            error = result.error[:_LONGEST_ERROR].replace("\0", "")
            seconds = wait(result.source.name).total_seconds() if result.wait is None else result.wait
            waits = {"delay": f"{seconds} s", "asked_to_wait": result.wait is not None}
            failures.append(entry | {"error": error} | waits)
        else:
            doubt = doubts.get(result.source.name)
            sure = not (doubt or result.doubt)
            # With validators, the next answer would be a 304, which confirms nothing.
            validators = result.validators if sure else Validators()
            items = None if result.not_modified else result.openings
            successes.append(entry | {"items": items, "doubt": doubt, "sure": sure, **validators._asdict()})
    for statement, entries in (("record_successes", successes), ("record_failures", failures)):
        if entries:
            await conn.execute(_QUERIES[statement], {"results": Jsonb(entries)})


def definition(source: Source) -> str:
    """Equal for two entries exactly when they request the same address and read the answer in the same way. A hash,
    since an address may be secret."""
    parts = (_READING, source.model_dump_json(), KINDS[source.kind].reading(source))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
