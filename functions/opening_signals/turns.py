"""Whose turn it is: so many sources at the same time, few of them of one host, and nobody waits for one that hangs.

Only sources that get on count. One that has waited for the network for half a second gives its turn to another, keeps
its place at its host, and takes a turn again when something has come.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from opening_signals.feeds.model import Source
from opening_signals.http.hosts import Host, host_of

# Seconds without anything from the network after which another source gets the turn.
PATIENCE = 0.5
# So many times as many as have a turn may be waiting for the network.
_MOST_WAITING = 8

Fetch = Callable[[Source, "Turn"], Awaitable[None]]


def in_turn(sources: Sequence[Source], failures: Callable[[Source], int]) -> list[Source]:
    """The healthy first, and the hosts mixed: neither the broken nor one host with many boards delay the others."""
    of_host: dict[str, int] = defaultdict(int)
    places = {}
    for source in sorted(sources, key=failures):
        of_host[host_of(source.url)] += 1
        places[source.name] = (failures(source), of_host[host_of(source.url)])
    return sorted(sources, key=lambda source: places[source.name])


class Turns:
    """The turns of one run."""

    def __init__(self, at_once: int, per_host: int) -> None:
        self._at_once = at_once
        self._per_host = per_host
        self._hosts: dict[str, Host] = defaultdict(Host)
        self._active = self._begun = self._returning = 0
        self._changed = asyncio.Event()

    def host(self, source: Source) -> Host:
        return self._hosts[host_of(source.url)]

    async def each(self, sources: Sequence[Source], fetch: Fetch) -> None:
        """Fetches all of them, each when its turn has come."""
        pending = list(sources)
        async with asyncio.TaskGroup() as group:
            while pending:
                source = self._next(pending)
                if source is None:
                    await self._change(min(self.host(each).rests() or 60.0 for each in pending))
                    continue
                pending.remove(source)
                turn = Turn(self)
                self._active += 1
                self._begun += 1
                self.host(source).running += 1
                group.create_task(self._one(source, turn, fetch))

    def _next(self, pending: Sequence[Source]) -> Source | None:
        if self._returning or self._active >= self._at_once or self._begun >= self._at_once * _MOST_WAITING:
            return None
        for source in pending:
            host = self.host(source)
            if host.is_left_alone or (host.running < self._per_host and not host.rests()):
                return source
        return None

    async def _one(self, source: Source, turn: "Turn", fetch: Fetch) -> None:
        try:
            await fetch(source, turn)
        finally:
            self._active -= not turn.is_given_up
            self._begun -= 1
            self.host(source).running -= 1
            self._tell()

    def give_up(self) -> None:
        self._active -= 1
        self._tell()

    async def take(self) -> None:
        """Whoever has begun comes before those that have not."""
        self._returning += 1
        try:
            while self._active >= self._at_once:
                await self._change(60.0)
            self._active += 1
        finally:
            self._returning -= 1
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _change(self, seconds: float) -> None:
        """Waits until somebody's turn has begun or ended, and not longer than that."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass


class Turn:
    """The turn of one source."""

    def __init__(self, turns: Turns) -> None:
        self.is_given_up = False
        self._turns = turns

    async def wait(self, coming: Awaitable[Any]) -> Any:
        """What comes from the network; the turn is another's while that takes long."""
        timer = asyncio.get_running_loop().call_later(PATIENCE, self._give_up)
        try:
            answer = await coming
        finally:
            timer.cancel()
        if self.is_given_up:
            await self._turns.take()
            self.is_given_up = False
        return answer

    def _give_up(self) -> None:
        self.is_given_up = True
        self._turns.give_up()
