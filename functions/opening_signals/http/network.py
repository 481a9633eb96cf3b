"""Connects, and only to allowed addresses. Knows nothing of sources, redirects or what is fetched.

Resolves a host, checks each of its addresses, and connects to a checked address, not to the name: a resolver that
would give another answer the second time is not asked again. TLS still checks the name.
"""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from functools import cache
from ssl import SSLContext, SSLError
from typing import Any

import httpcore2
import httpx2

from opening_signals.http.lookup import resolve as resolve

ALLOW_PRIVATE = "allow_private"
TIMEOUTS = (httpcore2.TimeoutException,)
ERRORS = (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError)
# A million items of 400 bytes, sent without compression, take 400 MB. None of it is kept: this bounds the traffic of
# one answer, chunk framing included.
MOST_WIRE = 512 * 1024**2
# Servers send a kilobyte or two, and other clients give up at 8 to 32.
MOST_HEAD = 64 * 1024
# Read in small portions: a portion may hold hundreds of interim answers, all parsed in one go.
_HEAD_PORTION = 8 * 1024
_MOST_ADDRESSES = 4

# is_global differs between patch releases of Python, so the forbidden networks are listed here.
_REFUSED = [
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/3"),
        # Looks public, but is the metadata service of a cloud.
        "168.63.129.16/32",
        # Of the global unicast addresses: protocol assignments with Teredo, documentation, and 6to4. Teredo and 6to4
        # contain an IPv4 address that another machine would connect to.
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
]
# The rest of IPv6 is refused: unique local, link-local, multicast, and addresses that contain an IPv4 one.
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")


class RefusedError(httpcore2.ConnectError):
    """The host has no allowed address."""


class TooMuchError(httpcore2.ReadError):
    """An answer is too long; the text says which part."""


def is_public(text: str) -> bool:
    """Whether this is an address on the public internet."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if address.version == 6 and address not in _GLOBAL_UNICAST:
        return False
    return address.is_global and not any(address in network for network in _REFUSED)


def why(error: Exception) -> str:
    """What went wrong, without the address, which the libraries' own texts hold."""
    if isinstance(error, httpcore2.TimeoutException):
        return f"did not answer in time ({type(error).__name__})"
    if not isinstance(error, httpcore2.ConnectError):
        return f"the request failed ({type(error).__name__})"
    # The connection pool drops the cause and keeps the context.
    if isinstance(error.__context__, socket.gaierror | UnicodeError):
        return "the name of its host cannot be resolved"
    if isinstance(error.__context__, SSLError):
        return "could not connect: its certificate or its TLS is invalid"
    return "could not connect"


def is_silent(error: Exception) -> bool:
    """Whether nothing at all answered."""
    return isinstance(error, httpcore2.ConnectError | httpcore2.TimeoutException)


class Transport(httpx2.AsyncBaseTransport):
    """Sends a request to public addresses only, unless it has the extension ALLOW_PRIVATE. Raises httpcore2's errors.

    Uses no proxy: it could connect to another address than the checked one. Keeps no cookies: sources on one host
    would look like one visitor.
    """

    def __init__(self) -> None:
        context = tls()
        # Two pools: a source that may not reach private addresses must not reuse a connection to one.
        self._public = _pool(context, _Backend(is_public))
        self._any = _pool(context, _Backend(lambda _: True))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        pool = self._any if request.extensions.get(ALLOW_PRIVATE) is True else self._public
        answer = await pool.handle_async_request(
            httpcore2.Request(
                request.method,
                httpcore2.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        stream = answer.extensions.get("network_stream")
        if isinstance(stream, _Bounded):
            stream.head_is_done()
        headers = [(name, value) for name, value in answer.headers if not name.lower().startswith(b"set-cookie")]
        return httpx2.Response(answer.status, headers=headers, stream=_Body(answer), extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._public.aclose()
        await self._any.aclose()


@cache
def tls() -> SSLContext:
    """One per process: reading all certificates blocks the loop for a tenth of a second."""
    return httpx2.create_ssl_context()


def _pool(context: SSLContext, backend: httpcore2.AsyncNetworkBackend) -> httpcore2.AsyncConnectionPool:
    # The caller limits how many requests run at the same time.
    return httpcore2.AsyncConnectionPool(
        context, max_connections=None, keepalive_expiry=5, http2=False, network_backend=backend
    )


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self._answer.aiter_stream()) as pieces:
            async for piece in pieces:
                yield piece

    async def aclose(self) -> None:
        await self._answer.aclose()


class _Backend(httpcore2.AnyIOBackend):
    """Connects to an allowed address of the host."""

    def __init__(self, allowed: Callable[[str], bool]) -> None:
        self._allowed = allowed

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._addresses(host, port, timeout)
        # A dead address, say of IPv6 without a route, must leave time for the next one.
        share = timeout and timeout / len(addresses)
        for address in addresses[:-1]:
            try:
                return _Bounded(await super().connect_tcp(address, port, share, local_address, socket_options))
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return _Bounded(await super().connect_tcp(addresses[-1], port, share, local_address, socket_options))

    async def _addresses(self, host: str, port: int, timeout: float | None) -> list[str]:
        try:
            async with asyncio.timeout(timeout):
                resolved = await resolve(host, port)
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError from error
        addresses = [address for address in resolved if self._allowed(address)]
        if not addresses:
            raise RefusedError
        return addresses[:_MOST_ADDRESSES]


class _Bounded(httpcore2.AsyncNetworkStream):
    """Limits the bytes of one answer: the count restarts with each request."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._received = 0
        self._in_head = True

    def head_is_done(self) -> None:
        self._in_head = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(min(max_bytes, _HEAD_PORTION) if self._in_head else max_bytes, timeout)
        self._received += len(data)
        if self._in_head and self._received > MOST_HEAD:
            raise TooMuchError("its headers do not end")
        if self._received > MOST_WIRE:
            raise TooMuchError(f"answered with more than {MOST_WIRE // 1024**2} MiB")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._received = 0
        self._in_head = True
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return _Bounded(await self._stream.start_tls(ssl_context, server_hostname, timeout))
        except BaseException:
            # Nothing else closes the socket when the handshake is cancelled, and the loop would keep it.
            await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
