"""Limits how many sources are fetched at the same time, in all and per host. A source that hangs delays no other.

Only sources that make progress count. One that has waited on the network for half a second gives its permit to
another, keeps its place at its host, and takes a permit again when data has arrived.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from opening_signals.feeds.model import Source
from opening_signals.http.hosts import Host, host_of

# Seconds without data from the network after which another source gets the permit.
PATIENCE = 0.5
# Sources in progress, those that wait on the network included, per permit.
_MOST_WAITING = 8

Fetch = Callable[[Source, "Permit"], Awaitable[None]]


def fetch_order(sources: Sequence[Source], failures: Callable[[Source], int]) -> list[Source]:
    """Healthy sources first, and hosts mixed: neither broken sources nor one host with many boards delay the rest."""
    of_host: dict[str, int] = defaultdict(int)
    places = {}
    for source in sorted(sources, key=failures):
        of_host[host_of(source.url)] += 1
        places[source.name] = (failures(source), of_host[host_of(source.url)])
    return sorted(sources, key=lambda source: places[source.name])


class Limiter:
    """The permits of one run."""

    def __init__(self, at_once: int, per_host: int) -> None:
        self._at_once = at_once
        self._per_host = per_host
        self._hosts: dict[str, Host] = defaultdict(Host)
        self._active = self._begun = self._returning = 0
        self._changed = asyncio.Event()

    def host(self, source: Source) -> Host:
        return self._hosts[host_of(source.url)]

    async def fetch_all(self, sources: Sequence[Source], fetch: Fetch) -> None:
        """Calls `fetch` for each source, as soon as the limits allow it."""
        pending = list(sources)
        async with asyncio.TaskGroup() as group:
            while pending:
                source = self._next(pending)
                if source is None:
                    await self._wait_for_change(min(self.host(each).rests() or 60.0 for each in pending))
                    continue
                pending.remove(source)
                self._active += 1
                self._begun += 1
                self.host(source).running += 1
                group.create_task(self._fetch(source, Permit(self), fetch))

    def _next(self, pending: Sequence[Source]) -> Source | None:
        if self._returning or self._active >= self._at_once or self._begun >= self._at_once * _MOST_WAITING:
            return None
        for source in pending:
            host = self.host(source)
            if host.is_left_alone or (host.running < self._per_host and not host.rests()):
                return source
        return None

    async def _fetch(self, source: Source, permit: "Permit", fetch: Fetch) -> None:
        try:
            await fetch(source, permit)
        finally:
            self._active -= permit.is_held
            self._begun -= 1
            self.host(source).running -= 1
            self._notify()

    def release(self) -> None:
        self._active -= 1
        self._notify()

    async def take_back(self) -> None:
        """Sources that have begun come before those that have not."""
        self._returning += 1
        try:
            while self._active >= self._at_once:
                await self._wait_for_change(60.0)
            self._active += 1
        finally:
            self._returning -= 1
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait_for_change(self, seconds: float) -> None:
        """Waits until a permit is taken or released, at most this long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()


class Permit:
    """The permit of one source."""

    def __init__(self, limiter: Limiter) -> None:
        self.is_held = True
        self._limiter = limiter

    async def wait(self, coming: Awaitable[Any]) -> Any:
        """Waits on the network; another source gets the permit if that takes long."""
        timer = asyncio.get_running_loop().call_later(PATIENCE, self._release)
        try:
            answer = await coming
        finally:
            timer.cancel()
        if not self.is_held:
            await self._limiter.take_back()
            self.is_held = True
        return answer

    def _release(self) -> None:
        self.is_held = False
        self._limiter.release()
