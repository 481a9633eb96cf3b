"""Fetches sources as a run would, one page after the other, and keeps nothing but what became of it."""

import asyncio
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Any

import httpx2

from opening_signals.collect import Collected, collect
from opening_signals.fetch import AT_ONCE, Validators, client
from opening_signals.model import Opening, Source

HEADING = ("name", "kind", "HTTP", "items", "rejected", "skipped", "time", "result")
# What a run with the default lease gives a source.
_SECONDS = 180.0
_answered: ContextVar[int | None] = ContextVar("answered", default=None)


async def check(sources: Iterable[Source]) -> list[Collected]:
    """What became of each, in their order. Asked without validators: a 304 would show nothing."""
    turn = asyncio.Semaphore(AT_ONCE)
    async with client() as http:
        http.event_hooks = {"response": [_note]}
        return await asyncio.gather(*(_check(http, source, turn) for source in sources))


async def _check(http: httpx2.AsyncClient, source: Source, turn: asyncio.Semaphore) -> Collected:
    async with turn:
        until = asyncio.get_running_loop().time() + _SECONDS
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
    counts = (found.items, found.rejected.total(), found.skipped)
    return (source.name, source.kind, found.status or "-", *counts, f"{found.seconds:.2f} s", result)


def notes(found: Collected) -> list[str]:
    """Why it failed and why items were left out: too long for a column."""
    said = [f"{found.source.name} failed: {found.error}"] if found.error else []
    reasons = [f"{reason} ({times})" for reason, times in found.rejected.most_common()]
    return [*said, *([f"{found.source.name} rejected: {'; '.join(reasons)}"] if reasons else [])]


def fields(found: Collected) -> dict[str, Any]:
    """The same for a program."""
    return {
        "name": found.source.name,
        "kind": found.source.kind,
        "status": found.status,
        "pages": found.pages,
        "items": found.items,
        "rejected": dict(found.rejected),
        "skipped": found.skipped,
        "seconds": round(found.seconds, 3),
        "error": found.error,
    }
