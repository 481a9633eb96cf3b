"""Fetches the pages of one source. Knows nothing of their content.

Every failure is a FeedError. Its text never holds the address, which may hold a secret. The caller limits the time: a
time-out per read would let a source that sends a byte a second go on forever.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import httpx2

from opening_signals.errors import FeedError
from opening_signals.feeds.model import Source
from opening_signals.http import network
from opening_signals.http.body import PIECE, Body
from opening_signals.http.hosts import LONGEST_REST, Host

# Seconds before the second and the third attempt, at least.
BACKOFF = (0.5, 2.0)
# A longer wait is cut to this.
_LONGEST_WAIT = 86_400.0
# How often a host may ask for a short wait before a page is given up.
_MOST_RESTS = 10
MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_LONGEST_VALIDATOR = 1000
_LONGEST_TURN = 0.05


class Validators(NamedTuple):
    """The version of a page as its source names it. Sent with the next request, an unchanged page costs one 304."""

    etag: str | None = None
    last_modified: str | None = None

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> "Validators":
        return cls(headers.get("etag"), headers.get("last-modified")).usable()

    def usable(self) -> "Validators":
        """Drops those that cannot be stored or sent."""
        return Validators(*(value if value and _is_sendable(value) else None for value in self))

    def headers(self) -> dict[str, str]:
        named = (("If-None-Match", self.etag), ("If-Modified-Since", self.last_modified))
        return {name: value for name, value in named if value}


_NONE = Validators()


class _RetryableError(FeedError):
    """This attempt failed, the next may succeed."""


class Page:
    """An answered page: a 200 that is not a web page, or a 304, which has no chunks."""

    def __init__(self, response: httpx2.Response, validators: Validators) -> None:
        self.status = response.status_code
        self.not_modified = self.status == 304
        self.url = str(response.url)
        self.validators = validators
        self._response = response
        self._rest = self._pieces()
        self._first = b""

    async def begin(self) -> None:
        """Reads the first piece, while the request can still be repeated."""
        self._first = await anext(self._rest, b"")

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The decoded body in pieces that are neither tiny nor large. Can be read once."""
        try:
            if self._first:
                yield self._first
            async for piece in self._rest:
                yield piece
        except network.TooMuchError as error:
            raise FeedError(str(error)) from None
        except network.ERRORS as error:
            raise FeedError(f"its answer broke off ({type(error).__name__})") from None

    async def aclose(self) -> None:
        await self._rest.aclose()
        await self._response.aclose()

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        if self.not_modified:
            return
        body = Body(self._response.headers.get("content-encoding", ""))
        gathered = bytearray()
        clock = asyncio.get_running_loop().time
        began = clock()
        async with aclosing(self._response.aiter_raw()) as wire:
            async for received in wire:
                for piece in body.feed(received):
                    gathered += piece
                    if len(gathered) >= PIECE:
                        yield bytes(gathered)
                        gathered.clear()
                if clock() - began > _LONGEST_TURN:
                    # One read may return thousands of tiny chunks: other tasks need a turn.
                    await asyncio.sleep(0)
                    began = clock()
        body.end()
        if gathered:
            yield bytes(gathered)


def _user_agent() -> str:
    try:
        return f"cronlease-opening-signals/{version('cronlease')}"
    except PackageNotFoundError:
        # Copied, not installed: a request needs no version.
        return "cronlease-opening-signals"


def client() -> httpx2.AsyncClient:
    """One client for all sources of a run; the caller closes it."""
    # They would log whole addresses, with the secrets in them.
    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return httpx2.AsyncClient(
        headers={"User-Agent": _user_agent(), "Accept-Encoding": "gzip"},
        follow_redirects=False,
        trust_env=False,
        transport=network.Transport(),
        timeout=httpx2.Timeout(30, connect=10, pool=None),
    )


async def get(
    http: httpx2.AsyncClient,
    source: Source,
    url: str,
    *,
    accept: str,
    validators: Validators = _NONE,
    host: Host | None = None,
) -> Page:
    """The page at that address, with retries until its first piece has come. The caller limits the time and closes
    the page. `host` keeps how long the host asked to wait, which holds for all of its sources."""
    return await _Request(http, source, accept, validators.usable(), host or Host()).ask(url)


class _Request:
    def __init__(
        self, http: httpx2.AsyncClient, source: Source, accept: str, validators: Validators, host: Host
    ) -> None:
        self._http = http
        self._host = host
        self._headers = {"Accept": accept, **validators.headers()}
        self._source = source
        self._validators = validators

    async def ask(self, url: str) -> Page:
        delays, rests = list(BACKOFF), 0
        while True:
            await self._rest()
            try:
                return await self._attempt(url)
            except _RetryableError as error:
                wait = min(error.wait or 0, _LONGEST_WAIT)
                rests += bool(wait)
                self._host.rest(wait)
                if wait > LONGEST_REST:
                    raise FeedError(
                        f"{error} and asks to wait for more than {LONGEST_REST:.0f} s", wait=wait
                    ) from None
                if rests > _MOST_RESTS or not (wait or delays):
                    raise FeedError(str(error), is_silent=error.is_silent) from None
                # A host that says how long to wait is asked again, up to _MOST_RESTS times.
                least = 0.0 if wait else delays.pop(0)
            await asyncio.sleep(least * random.uniform(1, 1.5))  # noqa: S311

    async def _rest(self) -> None:
        """Waits until the host may be asked. Checks again after that: the host may have asked for more meanwhile."""
        while seconds := self._host.rests():
            if seconds > LONGEST_REST:
                raise FeedError(f"its host asked to be left alone for {seconds:.0f} s", wait=seconds, is_asked=False)
            await asyncio.sleep(seconds)

    async def _attempt(self, url: str) -> Page:
        try:
            return await self._follow(httpx2.URL(url))
        except network.RefusedError:
            raise FeedError("its host has a private address: only allow_private = true lets it be reached") from None
        except network.TooMuchError as error:
            raise FeedError(str(error)) from None
        except network.TIMEOUTS as error:
            # Not retried: waiting for a host that hangs delays others.
            raise FeedError(network.why(error), is_silent=True) from None
        except network.ERRORS as error:
            raise _RetryableError(network.why(error), is_silent=network.is_silent(error)) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError):
            raise FeedError("its address, or one it redirects to, cannot be used") from None

    async def _follow(self, url: httpx2.URL) -> Page:
        # allow_private covers the host in the file, not the hosts that it redirects to.
        private = httpx2.URL(self._source.url).host if self._source.allow_private else None
        for _ in range(MOST_REDIRECTS + 1):
            if url.scheme not in ("http", "https") or not url.host or (url.port or 80) > 65535:
                raise FeedError("leads to an address that is not http or https")
            extensions = {network.ALLOW_PRIVATE: url.host == private}
            request = self._http.build_request("GET", url, headers=self._headers, extensions=extensions)
            response = await self._http.send(request, stream=True)
            try:
                location = response.headers.get("location")
                if response.status_code not in _REDIRECTS or not location:
                    return await self._page(response)
            except BaseException:
                await response.aclose()
                raise
            await response.aclose()
            secure, url = url.scheme == "https", url.join(location)
            if secure and url.scheme == "http":
                raise FeedError(
                    "redirects from https to http, which is refused: name the http address itself if that is meant"
                )
        raise FeedError(f"redirects more than {MOST_REDIRECTS} times")

    async def _page(self, response: httpx2.Response) -> Page:
        status = response.status_code
        if status in (408, 429) or status >= 500:
            raise _RetryableError(f"answered {status}", wait=_retry_after(response.headers.get("retry-after", "")))
        if status == 304 and any(self._validators):
            fresh = Validators.of(response.headers)
            return Page(response, fresh if any(fresh) else self._validators)
        if status != 200:
            raise FeedError(f"answered {status}")
        if response.headers.get("content-type", "").lower().startswith(("text/html", "application/xhtml")):
            raise FeedError("answered with a web page")
        page = Page(response, Validators.of(response.headers))
        await page.begin()
        return page


def _is_sendable(value: str) -> bool:
    return value.isascii() and value.isprintable() and len(value) <= _LONGEST_VALIDATOR


def _retry_after(text: str) -> float:
    """The seconds that the header asks for, given as a number or as a time; 0 when it is invalid."""
    try:
        if text.isdecimal():
            return float(text)
        moment = parsedate_to_datetime(text)
        return max((moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds(), 0)
    except (ValueError, TypeError, OverflowError):
        return 0
