"""Fetches sources as a run would, one page after the other, and keeps only how each did."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

import httpx2

from opening_signals import settings
from opening_signals.collect import collect
from opening_signals.collected import Collected
from opening_signals.feeds.model import Opening, Source
from opening_signals.http.fetch import Validators, client
from opening_signals.http.hosts import Host
from opening_signals.turns import Turn, Turns

HEADING = ("name", "kind", "HTTP", "items", "rejected", "repaired", "skipped", "time", "result")
# What a run with the default lease gives a source.
SECONDS = 180.0
_answered: ContextVar[int | None] = ContextVar("answered", default=None)


def _nothing(_: Collected) -> None: ...


async def check(
    sources: Iterable[Source], *, seconds: float = SECONDS, done: Callable[[Collected], None] = _nothing
) -> list[Collected]:
    """How each source did, in their order; `done` is called with each when it is over. A source has so many seconds
    from when its turn comes. Asked without validators: a 304 would show nothing."""
    asked = list(sources)
    results: dict[str, Collected] = {}
    turns = Turns(settings.at_once(), settings.per_host())

    async def one(source: Source, turn: Turn) -> None:
        until = asyncio.get_running_loop().time() + seconds
        results[source.name] = await _check(http, source, until, turns.host(source), turn)
        done(results[source.name])

    async with client() as http:
        http.event_hooks = {"response": [_note]}
        await turns.each(asked, one)
    return [results[source.name] for source in asked]


async def _check(http: httpx2.AsyncClient, source: Source, until: float, host: Host, turn: Turn) -> Collected:
    result = await collect(http, source, validators=Validators(), take=_drop, until=until, host=host, turn=turn)
    # The last one, also of a page that cannot be used: a person wants to see it.
    result.status = _answered.get()
    if result.cause:
        result.error = f"an unforeseen error, {type(result.cause).__name__}: {result.cause}"
    return result


async def _note(response: httpx2.Response) -> None:
    """Each source is a task of its own, with its own value."""
    _answered.set(response.status_code)


async def _drop(_: list[Opening]) -> None:
    """Where a run would stage them."""


def row(result: Collected) -> Sequence[str]:
    """The cells under HEADING."""
    source, ending = result.source, _ending(result) if result.error else "ok"
    counts = (result.items, result.rejected.total(), result.repaired.total(), result.skipped)
    return (source.name, source.kind, str(result.status or "-"), *map(str, counts), f"{result.seconds:.2f} s", ending)


def notes(result: Collected) -> list[str]:
    """Why it failed, why items were left out and what was corrected in others: too long for a column."""
    reasons = {
        _ending(result): result.error,
        "rejected": _reasons(result.rejected),
        "repaired": _reasons(result.repaired),
    }
    return [f"{result.source.name} {what}: {why}" for what, why in reasons.items() if why]


def _ending(result: Collected) -> str:
    """Of a source with an error: one whose host is left alone has not failed."""
    return "failed" if result.asked else "not asked"


def _reasons(counted: Counter[str]) -> str:
    return "; ".join(f"{reason} ({times})" for reason, times in counted.most_common())


def fields(result: Collected) -> dict[str, Any]:
    """The same for a program."""
    return {
        "name": result.source.name,
        "kind": result.source.kind,
        "asked": result.asked,
        "status": result.status,
        "pages": result.pages,
        "items": result.items,
        "rejected": dict(result.rejected),
        "repaired": dict(result.repaired),
        "skipped": result.skipped,
        "seconds": round(result.seconds, 3),
        "error": result.error,
    }
