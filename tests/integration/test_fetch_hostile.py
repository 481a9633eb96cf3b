"""P21: whatever a hostile source sends, memory and time are bounded."""

import asyncio
import gzip
import itertools
import socket
import time
import zlib
from collections.abc import Iterable

import pytest

from opening_signals.errors import FeedError
from opening_signals.http import body, fetch, network
from tests.integration.web import Connection, Script, Web, answer, drain, growth, head, moved, read, web

pytestmark = pytest.mark.thorough

__all__ = ["web"]

MB = 1024 * 1024
DEADLINE = 1.0
ZEROS = gzip.compress(bytes(64 * MB))


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower bounds, so that the tests are quick; still far above the growth that is allowed."""
    monkeypatch.setattr(fetch, "BACKOFF", (0.01, 0.02))
    monkeypatch.setattr(network, "MOST_WIRE", 64 * MB)
    monkeypatch.setattr(body, "MOST_DECODED", 96 * MB)


def sending(first: bytes, then: Iterable[bytes], pause: float = 0) -> Script:
    """The first, then all the rest, until the visitor has gone or the test is over."""

    def script(visitor: Connection) -> None:
        visitor.send(first)
        for part in then:
            visitor.send(part)
            if visitor.over.wait(pause) if pause else visitor.over.is_set():
                break
        visitor.socket.shutdown(socket.SHUT_RDWR)

    return script


def forever(part: bytes) -> Iterable[bytes]:
    return itertools.repeat(part)


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(data), extension, data)


def dense(times: int) -> bytes:
    """Text that gzip makes about that many times smaller."""
    noise = zlib.crc32(b"").to_bytes(4, "big")
    noisy = b"".join(zlib.crc32(noise + number.to_bytes(4, "big")).to_bytes(4, "big") for number in range(4096))
    return gzip.compress(b"".join(noisy[at : at + 64] + bytes(64 * times) for at in range(0, len(noisy), 64)))


def silent(visitor: Connection) -> None:
    visitor.over.wait(30)


CHUNKED = head(Transfer_Encoding="chunked")
GZIPPED = head(Transfer_Encoding="chunked", Content_Encoding="gzip")
START = b"HTTP/1.1 200 OK\r\n"
NO_TIME = "no time left"
HOSTILE: dict[str, tuple[Script, str]] = {
    "a gzip bomb": (answer(ZEROS, Content_Encoding="gzip"), "expands to more than 200 times"),
    "a gzip bomb named twice": (answer(gzip.compress(ZEROS), Content_Encoding="gzip, gzip"), "not asked for"),
    "a gzip bomb below the ratio": (sending(GZIPPED, forever(chunk(dense(100)))), "more than 96 MiB"),
    "a gzip of empty gzips": (sending(GZIPPED, forever(chunk(gzip.compress(b"") * 3000))), NO_TIME),
    "brotli nobody asked for": (answer(b"\x5b\xff\xff\xff\x03" * 2000, Content_Encoding="br"), "not asked for"),
    "endless chunks": (sending(CHUNKED, forever(chunk(b"[" * 65536))), "more than 64 MiB"),
    "an endless body": (sending(head(), forever(b"[" * 65536)), "more than 64 MiB"),
    "a body far longer than it says": (
        sending(head(Content_Length="9" * 18), forever(b" " * 65536)),
        "more than 64 MiB",
    ),
    "chunks that are all framing": (sending(CHUNKED, forever(chunk(b"x", b";" + b"y" * 60000))), "more than 64 MiB"),
    "chunks of one byte": (sending(CHUNKED, forever(chunk(b"x") * 10000)), NO_TIME),
    "a chunk head without an end": (sending(CHUNKED, forever(b"1" * 65536)), "RemoteProtocolError"),
    "endless trailers": (
        sending(CHUNKED + b"0\r\n", forever(b"X-A: " + b"b" * 1000 + b"\r\n")),
        "RemoteProtocolError",
    ),
    "endless headers": (sending(START, forever(b"X-A: " + b"b" * 1000 + b"\r\n")), "its headers do not end"),
    "one endless header": (sending(START + b"X-A: ", forever(b"b" * 65536)), "its headers do not end"),
    "an endless first line": (sending(b"HTTP/1.1 200 ", forever(b"O" * 65536)), "its headers do not end"),
    "endless promises of an answer": (
        sending(b"", forever(b"HTTP/1.1 102 Wait\r\n\r\n" * 100)),
        "its headers do not end",
    ),
    "a byte a second": (sending(head(Content_Length="1000"), forever(b"["), pause=0.4), NO_TIME),
    "a gzip at a byte a second": (sending(GZIPPED, [chunk(ZEROS[at : at + 1]) for at in range(99)], 0.4), NO_TIME),
    "headers at a byte a second": (sending(START, forever(b"X"), pause=0.4), NO_TIME),
    "no answer at all": (silent, NO_TIME),
    "a redirect to itself": (moved("/"), "redirects more than 5 times"),
    "a wait without an end": (answer(b"", 503, Retry_After="29"), NO_TIME),
    "an endless redirect": (sending(head(302, Location="/", Transfer_Encoding="chunked"), forever(chunk(b"x"))), "5"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_source_costs_little_memory_and_no_more_than_its_time(web: Web, kind: str) -> None:
    web.scripts["/fine"] = answer(b"[]")
    assert asyncio.run(drain(web.url("/fine"), 10)) == 2
    web.scripts["/"], said = HOSTILE[kind]
    # Where it is not the deadline that ends it, a busy machine must not make it so.
    deadline = DEADLINE if said == NO_TIME else 20 * DEADLINE
    began = time.monotonic()
    with growth() as grown, pytest.raises((FeedError, TimeoutError)) as end:
        asyncio.run(drain(web.url(), deadline))
    assert time.monotonic() - began <= deadline + 1
    assert grown[0] <= 32, f"grew by {grown[0]} MB"
    assert said in (NO_TIME if isinstance(end.value, TimeoutError) else str(end.value))


def test_the_growth_of_a_reader_that_keeps_everything_is_seen(web: Web) -> None:
    """The negative control: the scales work."""
    web.scripts["/"] = sending(CHUNKED, [*itertools.repeat(chunk(b"[" * 65536), 800), b"0\r\n\r\n"])
    with growth() as grown:
        _, kept = asyncio.run(read(web.url()))
    assert len(kept) == 800 * 65536
    assert grown[0] > 32


def test_a_million_items_pass_the_bounds_and_are_not_kept(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    block = b"".join(b"%0400d" % number for number in range(2500))
    part = chunk(block)
    web.scripts["/"] = sending(CHUNKED, itertools.chain(itertools.repeat(part, 400), [b"0\r\n\r\n"]))
    packed = chunk(gzip.compress(block))
    web.scripts["/gzip"] = sending(GZIPPED, itertools.chain(itertools.repeat(packed, 400), [b"0\r\n\r\n"]))
    for path in ("/", "/gzip"):
        with growth() as grown:
            assert asyncio.run(drain(web.url(path), 50)) == 400 * 1_000_000
        assert grown[0] <= 32, f"grew by {grown[0]} MB"


def test_a_hostile_source_does_not_hold_up_the_loop(web: Web) -> None:
    """The heartbeat of the run must go on whatever arrives."""
    web.scripts["/chunks"], _ = HOSTILE["chunks of one byte"]
    web.scripts["/gzips"], _ = HOSTILE["a gzip of empty gzips"]
    web.scripts["/dense"], _ = HOSTILE["a gzip bomb below the ratio"]
    web.scripts["/promises"], _ = HOSTILE["endless promises of an answer"]

    async def longest_pause(path: str) -> float:
        hostile = asyncio.create_task(drain(web.url(path), 1.5))
        longest, last = 0.0, time.monotonic()
        while not hostile.done():
            await asyncio.sleep(0.01)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        with pytest.raises((FeedError, TimeoutError)):
            await hostile
        return longest

    pauses = {path: asyncio.run(longest_pause(path)) for path in web.scripts}
    assert max(pauses.values()) < 0.5, pauses
