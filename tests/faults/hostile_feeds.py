"""Feeds that cost far more to read than to send. Each is a stream of bytes of about the size asked for."""

import gzip
import random
import socket
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

from tests.integration.web import Connection, Script, head

Body = Callable[[int], Iterator[bytes]]
_PART = 64 * 1024
_RSS = b'<?xml version="1.0"?><rss version="2.0"><channel><title>Acme</title>'


class Hostile(NamedTuple):
    """A body, the kind of source that reads it, and how it is encoded."""

    kind: str
    body: Body
    encoding: str = "identity"


def _filled(before: bytes, each: Callable[[int], bytes], after: bytes, *, between: bytes = b"") -> Body:
    """Begins, repeats until the size is reached, and ends."""

    def stream(size: int) -> Iterator[bytes]:
        part, sent = bytearray(before), 0
        for number in count():
            part += each(number) if number == 0 else between + each(number)
            if len(part) >= _PART:
                sent += len(part)
                yield bytes(part)
                part.clear()
                if sent >= size:
                    break
        yield bytes(after)

    return stream


def _in_item(before: bytes, each: Callable[[int], bytes], after: bytes) -> Body:
    """All of it is one item of a JSON board, with one more item after it."""
    return _filled(
        b'{"jobs":[{"id":1,"title":"Baker","metadata":' + before,
        each,
        after + b'},{"id":2,"title":"Cook"}]}',
        between=b",",
    )


def _large(number: int) -> bytes:
    """An item of nearly a megabyte that gzip makes about a hundred times smaller."""
    noise = random.Random(number).randbytes(4000).hex()
    text = "".join(noise[at : at + 16] + "x" * 1800 for at in range(0, len(noise), 16))
    return b'{"id":%d,"title":"Baker","content":"%s \xf0\x9f\x98\x80"}' % (number, text.encode())


def _zipped(body: Body) -> Body:
    def stream(size: int) -> Iterator[bytes]:
        return (gzip.compress(part) for part in body(size))

    return stream


def _link(number: int) -> bytes:
    return b"<item><guid>%d</guid><title>Baker</title><link>https://a.example/%b</link></item>" % (
        number,
        b"%d" % number * (900_000 // len(b"%d" % number)),
    )


def _next(size: int) -> Iterator[bytes]:
    yield b'{"version":"1.1","items":[{"id":"1","title":"Baker"}],"next_url":"/next?'
    for _ in range(size // _PART):
        yield b"a" * _PART
    yield b'"}'


HOSTILE = {
    "a gzip of nothing but spaces": Hostile(
        "greenhouse", _zipped(_filled(b'{"jobs":[', lambda _: b" " * _PART, b"]}")), "gzip"
    ),
    "a gzip of items of nearly a megabyte": Hostile(
        "greenhouse", _zipped(_filled(b'{"jobs":[', _large, b"]}", between=b",")), "gzip"
    ),
    "one huge text": Hostile(
        "greenhouse",
        _filled(
            b'{"jobs":[{"id":1,"title":"Baker","content":"\xf0\x9f\x98\x80',
            lambda _: b"a" * _PART,
            b'"},{"id":2,"title":"Cook"}]}',
        ),
    ),
    "one item with a million keys": Hostile("greenhouse", _in_item(b"{", lambda n: b'"%x":0' % n, b"}")),
    "one key a million times": Hostile("greenhouse", _in_item(b"{", lambda _: b'"a":{}', b"}")),
    "lists in lists": Hostile("greenhouse", _in_item(b"[", lambda _: b"[" * 400 + b"]" * 400, b"]")),
    "a long list in an item": Hostile("greenhouse", _in_item(b"[", lambda _: b"[]", b"]")),
    "huge numbers": Hostile("greenhouse", _in_item(b"[", lambda _: b"9" * 3999, b"]")),
    "a million tiny items": Hostile(
        "greenhouse", _filled(b'{"jobs":[', lambda n: b'{"id":%d,"title":"a"}' % n, b"]}", between=b",")
    ),
    "items that are nothing": Hostile("greenhouse", _filled(b'{"jobs":[', lambda _: b"{}", b"]}", between=b",")),
    "huge keys outside of the items": Hostile(
        "greenhouse", _filled(b"", lambda _: b'{"\xf0\x9f\x98\x80' + b"k" * 900_000 + b'":', b"")
    ),
    "a huge address of the next page": Hostile("jsonfeed", _next),
    "a huge text in XML": Hostile(
        "rss",
        _filled(
            _RSS + b"<item><guid>1</guid><title>Baker</title><description>",
            lambda _: b"&#x1F600;" + b"a" * 500,
            b"</description></item><item><guid>2</guid><title>Cook</title></item></channel></rss>",
        ),
    ),
    "a huge attribute": Hostile(
        "rss", _filled(_RSS + b'<item a="', lambda _: b"a" * 500, b'"></item></channel></rss>')
    ),
    "a million attributes": Hostile(
        "rss", _filled(_RSS + b"<item ", lambda n: b'a%x="" ' % n, b"></item></channel></rss>")
    ),
    "entities in entities": Hostile(
        "rss",
        _filled(
            b'<!DOCTYPE a [<!ENTITY l "lol">',
            lambda n: b'<!ENTITY l%d "&l;%b">' % (n, b"&l;" * 9),
            b"]><rss><channel><item>&l9;</item></channel></rss>",
        ),
    ),
    "an item with a million elements": Hostile(
        "rss", _filled(_RSS + b"<item>", lambda n: b"<a>%x</a>" % n, b"</item></channel></rss>")
    ),
    "a million names of elements": Hostile("rss", _filled(_RSS, lambda n: b"<a%x/>" % n, b"</channel></rss>")),
    "a million namespaces": Hostile(
        "rss", _filled(_RSS, lambda n: b'<a xmlns:n%x="u:%x"/>' % (n, n), b"</channel></rss>")
    ),
    "names in a long namespace": Hostile(
        "rss",
        _filled(
            b'<rss xmlns:n="u:' + b"u" * 100_000 + b'"><channel>', lambda n: b"<n:a%x/>" % n, b"</channel></rss>"
        ),
    ),
    "links of nearly a megabyte": Hostile("rss", _filled(_RSS, _link, b"</channel></rss>")),
    "a huge comment": Hostile("rss", _filled(_RSS + b"<!--", lambda _: b"a" * 500, b"--></channel></rss>")),
}


def sending(hostile: Hostile, size: int) -> Script:
    """Answers with the feed; its end is the end of the connection."""

    def script(visitor: Connection) -> None:
        visitor.send(head(Content_Encoding=hostile.encoding, Connection="close"))
        for part in hostile.body(size):
            visitor.send(part)
        visitor.socket.shutdown(socket.SHUT_RDWR)

    return script
