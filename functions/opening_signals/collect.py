"""One source, from the network to openings, page by page. Knows nothing of the database.

Whatever a source does ends in a Collected, never in an exception: the others go on.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from sys import getsizeof
from typing import Any

import httpx2

from opening_signals.errors import FeedError
from opening_signals.feeds import KINDS
from opening_signals.feeds.duplicates import Duplicates
from opening_signals.feeds.kind import Kind, reason
from opening_signals.feeds.model import Opening, Source
from opening_signals.http.fetch import Validators, get

PAGE = 2000
# Bytes of memory that openings may take before they are handed on.
PAGE_SIZE = 2 * 1024**2
DUPLICATE = "external_id: came again, and the last one counts"
_MOST_ITEMS = 2_000_000
_MOST_PAGES = 50_000
# Of all pages together, as body.MOST_DECODED is of one: what is bounded is the work that a source can cost a run.
MOST_BYTES = 1024**3
# One thread for all sources: parsing holds the interpreter's lock, so more would not be faster, and each would take
# its own memory. Not the loop's own threads, all of which may be waiting for something else.
_parsing = ThreadPoolExecutor(1, "parse")

Take = Callable[[list[Opening]], Awaitable[None]]


@dataclass(slots=True)
class Collected:
    """How far one source came. Without an error all of it was taken, or nothing has changed since the validators.
    `items` counts those of the feed. `rejected` counts those that were left out, by reason, and `repaired` what was
    corrected in the others: an item once for each of its reasons, and each item whose id came again later. `cause` is
    set only for an unforeseen error."""

    source: Source
    asked: bool = False
    status: int | None = None
    pages: int = 0
    items: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    skipped: int = 0
    not_modified: bool = False
    validators: Validators = field(default_factory=Validators)
    error: str | None = None
    cause: Exception | None = None
    seconds: float = 0.0

    @property
    def openings(self) -> int:
        """How many there are, each counted once."""
        return self.items - self.skipped - self.rejected.total() - self.repaired[DUPLICATE]


async def collect(
    http: httpx2.AsyncClient, source: Source, *, validators: Validators, take: Take, until: float
) -> Collected:
    """Fetches the source to its end, or until that time of the loop's clock. `take` gets the openings in the order of
    the feed, at most PAGE at once and as soon as they reach PAGE_SIZE; a FeedError that it raises ends the source."""
    result = Collected(source)
    clock = asyncio.get_running_loop().time
    started = clock()
    if started >= until:
        result.error = "its turn did not come in time"
        return result
    result.asked = True
    try:
        async with asyncio.timeout_at(until):
            await _Collection(http, result, take).run(validators)
    except TimeoutError:
        result.error = f"was not done after {round(until - started, 1):g} s"
    except FeedError as error:
        result.error = str(error)
    except Exception as error:
        # The text goes to the log only: nobody knows what is in it.
        result.cause = error
        result.error = f"an unforeseen error, {type(error).__name__}: see the log"
    result.seconds = clock() - started
    return result


class _Collection:
    """The pages of one source, one after the other."""

    def __init__(self, http: httpx2.AsyncClient, result: Collected, take: Take) -> None:
        self._http = http
        self._result = result
        self._take = take
        self._kind: Kind = KINDS[result.source.kind]
        self._buffer = PageBuffer()
        self._bytes = 0
        self._duplicates = Duplicates()
        # Hashes: there may be many pages, and long addresses.
        self._first_of_pages: set[int] = set()
        self._page_begins = True

    async def run(self, validators: Validators) -> None:
        result = self._result
        url: str | None = result.source.url
        asked: set[int] = set()
        while url is not None:
            if hash(url) in asked:
                raise FeedError("its pages lead back to one that was there before")
            if len(asked) == _MOST_PAGES:
                raise FeedError(f"has more than {_MOST_PAGES} pages")
            asked.add(hash(url))
            url = await self._page(url, validators if len(asked) == 1 else Validators())
        if result.rejected and not result.openings:
            commonest, count = result.rejected.most_common(1)[0][0], result.rejected.total()
            which = f"none of its {count} items is" if count > 1 else "its only item is not"
            raise FeedError(f"{which} usable: {commonest}")
        if rest := self._buffer.rest():
            await self._take(rest)
        if duplicates := await _in_thread(self._duplicates.count):
            result.repaired[DUPLICATE] = duplicates
        if result.pages > 1:
            # They speak of the first page only, and the others may change alone.
            result.validators = Validators()

    async def _page(self, url: str, validators: Validators) -> str | None:
        """Takes all of one page; the address of the next."""
        result, kind = self._result, self._kind
        async with get(self._http, result.source, url, accept=kind.accept, validators=validators) as page:
            result.status = page.status
            result.pages += 1
            if result.pages == 1:
                result.validators, result.not_modified = page.validators, page.not_modified
            if page.not_modified:
                return None
            before = result.items
            self._page_begins = True
            reader = kind.reader(result.source, url)
            async with aclosing(page.chunks()) as chunks:
                async for chunk in chunks:
                    self._bytes += len(chunk)
                    if self._bytes > MOST_BYTES:
                        raise FeedError(f"has more than {MOST_BYTES // 1024**2} MiB in all of its pages")
                    await self._read(partial(reader.feed, chunk))
            await self._read(reader.end)
        return reader.next_url(result.items - before)

    async def _read(self, items: Callable[[], Iterable[Any]]) -> None:
        """Parses in a thread, so that the requests that arrive meanwhile are answered."""
        for page in await _in_thread(partial(self._accept, items)):
            await self._take(page)

    def _accept(self, items: Callable[[], Iterable[Any]]) -> list[list[Opening]]:
        """The pages that these items completed."""
        result, pages = self._result, []
        repairs: list[str] = []
        for item in items():
            result.items += 1
            if result.items > _MOST_ITEMS:
                raise FeedError(f"has more than {_MOST_ITEMS} items")
            try:
                opening = self._kind.opening(item, result.source, repairs)
            except ValueError as error:
                result.rejected[reason(error)] += 1
            else:
                if opening is None:
                    result.skipped += 1
                else:
                    self._refuse_the_same_page(opening)
                    self._duplicates.add(opening.external_id)
                    if page := self._buffer.add(opening):
                        pages.append(page)
                    if repairs:
                        result.repaired.update(repairs)
            repairs.clear()
        return pages

    def _refuse_the_same_page(self, opening: Opening) -> None:
        """A server that does not know the paging parameter answers with its first page for ever."""
        if not self._page_begins:
            return
        first = hash(opening.external_id)
        if first in self._first_of_pages:
            raise FeedError("its next page is the same page again")
        self._first_of_pages.add(first)
        self._page_begins = False


class PageBuffer:
    """Gathers openings into pages. Where a page ends depends on the openings alone, so that an unchanged feed has the
    same pages again."""

    def __init__(self) -> None:
        self._page: list[Opening] = []
        self._size = 0

    def add(self, opening: Opening) -> list[Opening] | None:
        """The page, if this opening completes it."""
        self._page.append(opening)
        self._size += sum(map(getsizeof, opening))
        return self.rest() if len(self._page) >= PAGE or self._size >= PAGE_SIZE else None

    def rest(self) -> list[Opening]:
        """What no complete page holds; the buffer is empty afterwards."""
        page, self._page, self._size = self._page, [], 0
        return page


async def _in_thread(work: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(_parsing, work)
