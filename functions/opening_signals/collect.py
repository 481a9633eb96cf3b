"""One source, from the network to openings, page by page. Knows nothing of the database.

Every failure of a source becomes a SourceResult, never an exception: the others go on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from sys import getsizeof
from typing import Any

import httpx2

from opening_signals.errors import EmptyFeedError, FeedError
from opening_signals.feeds import KINDS
from opening_signals.feeds.duplicates import Duplicates
from opening_signals.feeds.kind import Kind, Reader, reason
from opening_signals.feeds.model import Opening, Source
from opening_signals.feeds.page_order import PageOrder
from opening_signals.http.fetch import Page, Validators, get
from opening_signals.http.hosts import Host
from opening_signals.source_result import DUPLICATE, SourceResult

PAGE = 2000
# Bytes of memory that a page of openings may take.
PAGE_SIZE = 2 * 1024**2
_MOST_ITEMS = 2_000_000
_MOST_PAGES = 50_000
# For all pages together, as body.MOST_DECODED is for one: bounds the work that a source can cost a run.
MOST_BYTES = 1024**3
# One thread for all sources: parsing holds the interpreter's lock, so more threads would only take more memory. Not
# the loop's own threads, all of which may be blocked.
_parsing = ThreadPoolExecutor(1, "parse")

Take = Callable[[list[Opening]], Awaitable[None]]
# Waits on the network, and may let other sources work meanwhile.
Wait = Callable[[Awaitable[Any]], Awaitable[Any]]


async def drop(_: list[Opening]) -> None:
    """A `take` for openings that nobody needs."""


async def _just_wait(coming: Awaitable[Any]) -> Any:
    return await coming


async def collect(
    http: httpx2.AsyncClient,
    source: Source,
    *,
    validators: Validators,
    take: Take,
    until: float,
    host: Host | None = None,
    wait: Wait = _just_wait,
    known: bool = False,
) -> SourceResult:
    """Fetches the source to its end, or until that time of the loop's clock. Calls `take` with pages of at most PAGE
    openings and about PAGE_SIZE bytes, in the order of the feed; a FeedError that it raises ends the source. Only a
    `known` source, which has answered before, may be empty where its kind does not allow that."""
    result = SourceResult(source)
    clock = asyncio.get_running_loop().time
    started = clock()
    if started >= until:
        result.error = "its turn did not come in time"
        return result
    result.asked = True
    try:
        async with asyncio.timeout_at(until):
            collection = _Collection(http, result, take, host or Host(), wait, known=known)
            await collection.run(validators)
    except TimeoutError:
        result.error, result.is_silent = f"was not done after {round(until - started, 1):g} s", True
    except FeedError as error:
        result.error, result.wait, result.is_silent = str(error), error.wait, error.is_silent
        result.asked = error.is_asked or result.pages > 0
    except Exception as error:
        # The text goes to the log only: it may hold a secret.
        result.cause = error
        result.error = f"an unexpected error, {type(error).__name__}: see the log"
    result.seconds = clock() - started
    return result


class _Collection:
    """The pages of one source, one after the other."""

    def __init__(
        self, http: httpx2.AsyncClient, result: SourceResult, take: Take, host: Host, wait: Wait, *, known: bool
    ) -> None:
        self._http = http
        self._result = result
        self._take = take
        self._host = host
        self._wait = wait
        self._known = known
        self._kind: Kind = KINDS[result.source.kind]
        self._buffer = PageBuffer()
        self._bytes = 0
        self._duplicates = Duplicates()
        self._order = PageOrder()

    async def run(self, validators: Validators) -> None:
        order = self._order
        url: str | None = self._result.source.url
        anchored: str | None = None
        # Hashes, since there may be many pages with long addresses.
        asked: set[int] = set()
        while url is not None:
            address = anchored or url
            if hash(address) in asked:
                raise FeedError("its pages lead back to one that was there before")
            if len(asked) == _MOST_PAGES:
                raise FeedError(f"has more than {_MOST_PAGES} pages")
            asked.add(hash(address))
            order.begin(anchored=anchored is not None)
            reader = await self._page(address, validators if len(asked) == 1 else Validators())
            if reader is None:
                break
            if order.end(reader.total):
                url = None if order.adds_nothing else reader.next_url(order.items, order.total)
                anchored = reader.anchored(url) if url and order.is_anchored else None
            elif anchored:
                # This server rounds offsets down to whole pages.
                order.give_up_anchors()
                anchored = None
            else:
                raise FeedError("its next page is the same page again")
        await self._finish()

    async def _finish(self) -> None:
        result, order = self._result, self._order
        if result.rejected and not result.openings:
            commonest, count = result.rejected.most_common(1)[0][0], result.rejected.total()
            which = f"none of its {count} items is" if count > 1 else "its only item is not"
            raise FeedError(f"{which} usable: {commonest}")
        if rest := self._buffer.rest():
            await self._take(rest)
        if duplicates := await _in_thread(self._duplicates.count):
            result.repaired[DUPLICATE] = duplicates
        repeated = duplicates - self._duplicates.within_pages if result.pages > 1 else 0
        order.finish(result.items - duplicates, repeated=repeated)
        result.doubt, result.order, result.anchored = order.doubt, order.pages, order.is_anchored
        if result.pages > 1:
            # Validators describe the first page only; the others may change without it.
            result.validators = Validators()

    async def _page(self, url: str, validators: Validators) -> Reader | None:
        """Takes all openings of one page and returns its reader; None when nothing has changed."""
        result, kind = self._result, self._kind
        page: Page = await self._wait(
            get(self._http, result.source, url, accept=kind.accept, validators=validators, host=self._host)
        )
        async with aclosing(page):
            result.status = page.status
            result.pages += 1
            if result.pages == 1:
                result.validators, result.not_modified = page.validators, page.not_modified
            if page.not_modified:
                return None
            reader = kind.reader(result.source, url)
            async with aclosing(page.chunks()) as chunks:
                while chunk := await self._wait(anext(chunks, b"")):
                    self._bytes += len(chunk)
                    if self._bytes > MOST_BYTES:
                        raise FeedError(f"has more than {MOST_BYTES // 1024**2} MiB in all of its pages")
                    await self._read(partial(reader.feed, chunk))
            await self._read(partial(self._end, reader))
        return reader

    def _end(self, reader: Reader) -> Iterable[Any]:
        try:
            yield from reader.end()
        except EmptyFeedError:
            if not self._known:
                raise
        self._duplicates.end_page()

    async def _read(self, items: Callable[[], Iterable[Any]]) -> None:
        """Parses in a thread, so that requests that arrive meanwhile are answered."""
        for page in await _in_thread(partial(self._accept, items)):
            await self._take(page)

    def _accept(self, items: Callable[[], Iterable[Any]]) -> list[list[Opening]]:
        """Converts the items to openings and returns the pages that they complete."""
        result, pages = self._result, []
        repairs: list[str] = []
        for item in items():
            opening, why = self._opening(item, repairs)
            # An item without an id is identified by its beginning.
            if self._order.note(hash(opening.external_id if opening else repr(item)[:1000])):
                continue
            result.items += 1
            if result.items > _MOST_ITEMS:
                raise FeedError(f"has more than {_MOST_ITEMS} items")
            if why:
                result.rejected[why] += 1
            elif opening is None:
                result.skipped += 1
            else:
                self._duplicates.add(opening.external_id)
                if page := self._buffer.add(opening):
                    pages.append(page)
                if repairs:
                    result.repaired.update(repairs)
        return pages

    def _opening(self, item: Any, repairs: list[str]) -> tuple[Opening | None, str | None]:
        """The opening, or why the item is rejected, or neither when it is skipped on purpose."""
        repairs.clear()
        try:
            return self._kind.opening(item, self._result.source, repairs), None
        except ValueError as error:
            return None, reason(error)


class PageBuffer:
    """Groups openings into pages. Where a page ends depends on the openings alone, so that an unchanged feed has the
    same pages every time."""

    def __init__(self) -> None:
        self._page: list[Opening] = []
        self._size = 0

    def add(self, opening: Opening) -> list[Opening] | None:
        """Returns the page if this opening completes it."""
        self._page.append(opening)
        self._size += sum(map(getsizeof, opening))
        return self.rest() if len(self._page) >= PAGE or self._size >= PAGE_SIZE else None

    def rest(self) -> list[Opening]:
        """Returns the incomplete page and empties the buffer."""
        page, self._page, self._size = self._page, [], 0
        return page


async def _in_thread(work: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(_parsing, work)
