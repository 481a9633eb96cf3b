"""Fetches the document of one source. Knows nothing of what is in it.

Whatever goes wrong is a FeedError. Its text never holds the address, which may hold a secret. The time limit is
the caller's: a time-out per read would let a source that sends a byte a second go on for ever.
"""

import asyncio
import ipaddress
import socket

import httpx2

from opening_signals.model import FeedError, Source

AT_ONCE = 8
_MOST_BYTES = 64 * 1024 * 1024
_HEADERS = {
    "User-Agent": "cronlease-opening-signals/0.1",
    "Accept": "application/json",
    # Nothing but gzip: its decoder gives back bounded pieces, so that a bomb is noticed while it unfolds.
    "Accept-Encoding": "gzip",
}


def client() -> httpx2.AsyncClient:
    """One client for all sources of a run; the caller closes it. Proxies of the environment are not used:
    behind one, the address that was checked is not the one that is reached."""
    return httpx2.AsyncClient(
        headers=_HEADERS,
        follow_redirects=False,
        trust_env=False,
        timeout=httpx2.Timeout(30, connect=10, pool=None),
    )


async def fetch(http: httpx2.AsyncClient, source: Source) -> bytes:
    """The decoded body of a 200 that is not a web page."""
    try:
        url = httpx2.URL(source.url)
        if not source.allow_private:
            await _refuse_private(url)
        async with http.stream("GET", url) as response:
            _refuse_wrong_answer(response)
            return await _body(response)
    except httpx2.ConnectError as error:
        raise FeedError(f"could not connect: {error}") from None
    except httpx2.TimeoutException as error:
        raise FeedError(f"did not answer in time ({type(error).__name__})") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        raise FeedError(f"the request failed ({type(error).__name__})") from None


async def _refuse_private(url: httpx2.URL) -> None:
    """Raises when the host has any address that is not public."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise FeedError("the name of its host cannot be resolved") from None
    for *_, address in found:
        if not _is_public(str(address[0])):
            raise FeedError("its host has a private address: allow_private = true lets this source reach it")


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    return address.is_global and not address.is_multicast


def _refuse_wrong_answer(response: httpx2.Response) -> None:
    if response.is_redirect:
        raise FeedError(f"answered {response.status_code}, a redirect: give the address it leads to")
    if response.status_code != 200:
        raise FeedError(f"answered {response.status_code}")
    if response.headers.get("content-type", "").lower().startswith(("text/html", "application/xhtml")):
        raise FeedError("answered with a web page")
    if response.headers.get("content-encoding", "identity").lower() not in ("identity", "gzip"):
        raise FeedError("answered in an encoding that was not asked for")


async def _body(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise FeedError(f"answered with more than {_MOST_BYTES // 1024**2} MiB")
    return bytes(body)
