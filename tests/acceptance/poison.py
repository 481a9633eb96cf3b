"""The real job, with one more kind of feed: one that kills the process that reads it. Also a job that does so."""

import asyncio
import os
import signal
import sys

from cronlease import Run, scheduled
from opening_signals import feeds, job
from opening_signals.feeds.model import Opening, Source
from opening_signals.feeds.xml_items import XmlReader


class Poison:
    accept = "*/*"
    address = ""

    def reader(self, source: Source, url: str) -> XmlReader:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    def reading(self, source: Source) -> str:
        return "1"

    def opening(self, item: object, source: Source, repairs: list[str]) -> Opening | None: ...


feeds.KINDS["poison"] = Poison()  # type: ignore[index]


@scheduled
async def refresh_opening_signals(run: Run) -> None:
    await job.refresh(run)


@scheduled
async def die(run: Run) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@scheduled
async def leave(run: Run) -> None:
    async def exits() -> None:
        sys.exit(3)

    await asyncio.gather(exits())
