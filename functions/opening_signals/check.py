"""Fetches sources as a run would, one page after the other, and keeps nothing but what became of it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

import httpx2

from opening_signals import settings
from opening_signals.collect import Collected, collect
from opening_signals.feeds.model import Opening, Source
from opening_signals.http.fetch import Validators, client

HEADING = ("name", "kind", "HTTP", "items", "rejected", "repaired", "skipped", "time", "result")
# What a run with the default lease gives a source.
SECONDS = 180.0
_answered: ContextVar[int | None] = ContextVar("answered", default=None)


def _nothing(_: Collected) -> None: ...


async def check(
    sources: Iterable[Source], *, seconds: float = SECONDS, done: Callable[[Collected], None] = _nothing
) -> list[Collected]:
    """What became of each, in their order; `done` is told of each when it is over. A source has so many seconds from
    when its turn comes. Asked without validators: a 304 would show nothing."""
    turn = asyncio.Semaphore(settings.at_once())

    async def one(http: httpx2.AsyncClient, source: Source) -> Collected:
        async with turn:
            found = await _check(http, source, asyncio.get_running_loop().time() + seconds)
        done(found)
        return found

    async with client() as http:
        http.event_hooks = {"response": [_note]}
        return await asyncio.gather(*(one(http, source) for source in sources))


async def _check(http: httpx2.AsyncClient, source: Source, until: float) -> Collected:
    found = await collect(http, source, validators=Validators(), take=_drop, until=until)
    # The last one, whatever it was: a run has no use for the status of a page that it cannot use, a person has.
    found.status = _answered.get()
    if found.cause:
        found.error = f"an unforeseen error, {type(found.cause).__name__}: {found.cause}"
    return found


async def _note(response: httpx2.Response) -> None:
    """Each source is a task of its own, with its own value."""
    _answered.set(response.status_code)


async def _drop(_: list[Opening]) -> None:
    """Where a run would stage them."""


def row(found: Collected) -> Sequence[object]:
    """The cells under HEADING."""
    source, result = found.source, "failed" if found.error else "ok"
    counts = (found.items, found.rejected.total(), found.repaired.total(), found.skipped)
    return (source.name, source.kind, found.status or "-", *counts, f"{found.seconds:.2f} s", result)


def notes(found: Collected) -> list[str]:
    """Why it failed, why items were left out and what was mended in others: too long for a column."""
    said = {"failed": found.error, "rejected": _reasons(found.rejected), "repaired": _reasons(found.repaired)}
    return [f"{found.source.name} {what}: {why}" for what, why in said.items() if why]


def _reasons(counted: Counter[str]) -> str:
    return "; ".join(f"{reason} ({times})" for reason, times in counted.most_common())


def fields(found: Collected) -> dict[str, Any]:
    """The same for a program."""
    return {
        "name": found.source.name,
        "kind": found.source.kind,
        "status": found.status,
        "pages": found.pages,
        "items": found.items,
        "rejected": dict(found.rejected),
        "repaired": dict(found.repaired),
        "skipped": found.skipped,
        "seconds": round(found.seconds, 3),
        "error": found.error,
    }
