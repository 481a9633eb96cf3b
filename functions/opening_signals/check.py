"""Fetches sources as a run would, and keeps only the result of each."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

import httpx2

from opening_signals import settings
from opening_signals.collect import collect, drop
from opening_signals.feeds.model import Source
from opening_signals.http.fetch import Validators, client
from opening_signals.limiter import Limiter, Permit
from opening_signals.source_result import SourceResult

HEADING = ("name", "kind", "HTTP", "items", "rejected", "repaired", "skipped", "time", "result")
# What a run with the default lease gives a source.
SECONDS = 180.0
_last_status: ContextVar[int | None] = ContextVar("last_status", default=None)


async def check(
    sources: Iterable[Source], *, seconds: float = SECONDS, done: Callable[[SourceResult], None] = lambda _: None
) -> list[SourceResult]:
    """The result of each source, in their order; calls `done` with each as soon as it is there. Each source has that
    many seconds from its start. Sends no validators: a 304 would show nothing."""
    chosen = list(sources)
    results: dict[str, SourceResult] = {}
    limiter = Limiter(settings.at_once(), settings.per_host())

    async def check_one(source: Source, permit: Permit) -> None:
        until, host = asyncio.get_running_loop().time() + seconds, limiter.host(source)
        result = await collect(
            http, source, validators=Validators(), take=drop, until=until, host=host, wait=permit.wait
        )
        # Also of an answer that cannot be used: a person wants to see it.
        result.status = _last_status.get()
        if result.cause:
            result.error = f"an unexpected error, {type(result.cause).__name__}: {result.cause}"
        results[source.name] = result
        done(result)

    async with client() as http:
        http.event_hooks = {"response": [_note_status]}
        await limiter.fetch_all(chosen, check_one)
    return [results[source.name] for source in chosen]


async def _note_status(response: httpx2.Response) -> None:
    """Each source has its own task, and so its own value."""
    _last_status.set(response.status_code)


def row(result: SourceResult) -> Sequence[str]:
    """The cells under HEADING."""
    source, ending = result.source, _ending(result) if result.error else "ok"
    counts = (result.items, result.rejected.total(), result.repaired.total(), result.skipped)
    return (source.name, source.kind, str(result.status or "-"), *map(str, counts), f"{result.seconds:.2f} s", ending)


def notes(result: SourceResult) -> list[str]:
    """Why the source failed, why items were left out and what was repaired: too long for a column."""
    reasons = {
        _ending(result): result.error,
        "rejected": _reasons(result.rejected),
        "repaired": _reasons(result.repaired),
    }
    return [f"{result.source.name} {what}: {why}" for what, why in reasons.items() if why]


def _ending(result: SourceResult) -> str:
    """For a source with an error. One that was not asked, since its host is left alone, has not failed."""
    return "failed" if result.asked else "not asked"


def _reasons(counted: Counter[str]) -> str:
    return "; ".join(f"{reason} ({times})" for reason, times in counted.most_common())


def fields(result: SourceResult) -> dict[str, Any]:
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
