"""What a decent source, a busy one and a broken one get from a fetch, over real HTTP."""

import asyncio
import gzip
import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from importlib.metadata import version

import pytest

from opening_signals.errors import FeedError
from opening_signals.http import fetch
from opening_signals.http.fetch import Validators, client, get
from tests.integration.web import Script, Web, answer, hang_up, head, in_turn, moved, read, source, web

__all__ = ["web"]

BODY = b'{"jobs": []}'


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "BACKOFF", (0.01, 0.02))


def test_a_page_is_asked_for_politely_and_read_whole(web: Web) -> None:
    web.scripts["/jobs?page=1"] = answer(BODY, ETag='"v1"', Last_Modified="Mon, 16 Nov 2026 05:00:00 GMT")
    page, body = asyncio.run(read(web.url("/jobs?page=1")))
    assert (page.status, page.not_modified, page.url, body) == (200, False, web.url("/jobs?page=1"), BODY)
    assert page.validators == Validators('"v1"', "Mon, 16 Nov 2026 05:00:00 GMT")
    sent = web.asked[0].headers
    assert sent["user-agent"] == f"cronlease-opening-signals/{version('cronlease')}"
    assert (sent["accept"], sent["accept-encoding"]) == ("application/json", "gzip")
    assert not {"if-none-match", "if-modified-since", "cookie", "referer"} & sent.keys()


@pytest.mark.parametrize("name", ["gzip", "x-gzip", "GZip"])
def test_gzip_is_unfolded_also_when_it_is_several_files_joined(web: Web, name: str) -> None:
    document = BODY * 50_000
    web.scripts["/"] = answer(gzip.compress(document) + gzip.compress(BODY) * 3, Content_Encoding=name)
    assert asyncio.run(read(web.url()))[1] == document + BODY * 3


def test_pieces_are_neither_tiny_nor_large(web: Web) -> None:
    lines = [b"%d," % number for number in range(30_000)]
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(line), line) for line in lines)
    web.scripts["/"] = lambda visitor: visitor.send(head(Transfer_Encoding="chunked"), chunked, b"0\r\n\r\n")

    async def lengths() -> list[int]:
        async with client() as http, aclosing(await get(http, source(), web.url(), accept="*/*")) as page:
            return [len(chunk) async for chunk in page.chunks()]

    found = asyncio.run(lengths())
    assert sum(found) == sum(map(len, lines))
    assert all(64 * 1024 <= length < 128 * 1024 for length in found[:-1])


def test_an_unchanged_page_costs_one_304(web: Web) -> None:
    web.scripts["/"] = answer(b"", 304, Content_Encoding="br")
    known = Validators('"v1"', "Mon, 16 Nov 2026 05:00:00 GMT")
    page, body = asyncio.run(read(web.url(), known))
    assert (page.status, page.not_modified, page.validators, body) == (304, True, known, b"")
    sent = web.asked[0].headers
    assert (sent["if-none-match"], sent["if-modified-since"]) == known
    assert len(web.asked) == 1


def test_a_304_may_bring_new_validators(web: Web) -> None:
    web.scripts["/"] = answer(b"", 304, ETag='"v2"')
    assert asyncio.run(read(web.url(), Validators('"v1"')))[0].validators == Validators('"v2"')


@pytest.mark.parametrize("spoiled", ["a" * 1001, "caf\xe9", "a\r\nX-Evil: 1", ""])
def test_a_validator_that_cannot_be_sent_is_forgotten(web: Web, spoiled: str) -> None:
    web.scripts["/"] = in_turn(answer(BODY, ETag=spoiled.partition("\r")[0]), answer(BODY))
    page, _ = asyncio.run(read(web.url(), Validators(spoiled, "Mon, 16 Nov 2026 05:00:00 GMT")))
    assert "if-none-match" not in web.asked[0].headers
    assert "x-evil" not in web.asked[0].headers
    assert page.validators.etag in (None, "a")


REFUSED: dict[str, tuple[Script, str]] = {
    "gone": (answer(BODY, 404), "answered 404"),
    "gone for good": (answer(BODY, 410), "answered 410"),
    "a 304 nobody asked for": (answer(b"", 304), "answered 304"),
    "a part": (answer(BODY, 206), "answered 206"),
    "nothing": (answer(b"", 204), "answered 204"),
    "a web page": (answer(b"<html>", Content_Type="Text/HTML; charset=utf-8"), "answered with a web page"),
    "a redirect to nowhere": (answer(b"", 302), "answered 302"),
    "brotli": (answer(BODY, Content_Encoding="br"), "answered in an encoding that was not asked for"),
    "deflate": (answer(BODY, Content_Encoding="deflate"), "answered in an encoding that was not asked for"),
    "gzip twice": (answer(BODY, Content_Encoding="gzip, gzip"), "answered in an encoding that was not asked for"),
    "no gzip": (answer(BODY, Content_Encoding="gzip"), "its answer is broken gzip"),
    "half a gzip": (
        answer(gzip.compress(BODY * 1000)[:-4], Content_Encoding="gzip"),
        "its answer is cut off: the gzip has no end",
    ),
    "gzip and more": (answer(gzip.compress(BODY) + b"more", Content_Encoding="gzip"), "its answer is broken gzip"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_a_page_is_refused_without_a_retry(web: Web, case: str) -> None:
    web.scripts["/"], said = REFUSED[case]
    with pytest.raises(FeedError) as refusal:
        asyncio.run(read(web.url()))
    assert str(refusal.value) == said
    assert len(web.asked) == 1


def broken(*parts: bytes) -> Script:
    """Sends that much, then hangs up."""

    def script(visitor: object) -> None:
        visitor.send(*parts)  # type: ignore[attr-defined]
        hang_up(visitor)  # type: ignore[arg-type]

    return script


PASSING: dict[str, Script] = {
    "too many requests": answer(b"", 429),
    "broken": answer(b"", 500),
    "a bad gateway": answer(b"", 502),
    "not available": answer(b"", 503),
    "a slow gateway": answer(b"", 504),
    "no answer": hang_up,
    "half a head": broken(b"HTTP/1.1 200 O"),
    "no HTTP": broken(b"220 mail.example ESMTP\r\n\r\n"),
    "shorter than it says": broken(head(Content_Length="1000"), BODY),
    "chunks without an end": broken(head(Transfer_Encoding="chunked"), b"5\r\nhello\r\n"),
}


@pytest.mark.parametrize("case", PASSING)
def test_what_may_pass_is_tried_three_times(web: Web, case: str) -> None:
    web.scripts["/"] = in_turn(PASSING[case], PASSING[case], answer(BODY))
    assert asyncio.run(read(web.url()))[1] == BODY
    web.scripts["/"] = PASSING[case]
    with pytest.raises(FeedError):
        asyncio.run(read(web.url()))
    assert len(web.asked) == 6


def test_a_port_where_nobody_listens_is_a_failed_fetch(web: Web) -> None:
    web.close()
    with pytest.raises(FeedError, match=r"^could not connect$"):
        asyncio.run(read(web.url()))


@pytest.mark.parametrize("allow_private", [True, False])
def test_a_host_without_an_address_is_a_failed_fetch(allow_private: bool) -> None:
    with pytest.raises(FeedError, match=r"^the name of its host cannot be resolved$"):
        asyncio.run(read("http://no-such-host.invalid/", allow_private=allow_private))


def test_once_a_piece_was_handed_out_nothing_is_asked_again(web: Web) -> None:
    web.scripts["/"] = broken(head(Content_Length="1000000"), b"x" * 300_000)
    handed: list[int] = []

    async def run() -> None:
        async with client() as http, aclosing(await get(http, source(), web.url(), accept="*/*")) as page:
            async for chunk in page.chunks():
                handed.append(len(chunk))

    with pytest.raises(FeedError, match=r"^its answer broke off \(RemoteProtocolError\)$"):
        asyncio.run(run())
    assert handed
    assert len(web.asked) == 1


def test_what_the_reader_of_a_page_raises_is_its_own(web: Web) -> None:
    web.scripts["/"] = answer(BODY)

    async def run() -> None:
        async with client() as http, aclosing(await get(http, source(), web.url(), accept="*/*")):
            raise ConnectionError("the database is away")

    with pytest.raises(ConnectionError, match="the database"):
        asyncio.run(run())
    assert len(web.asked) == 1


def in_a_second() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)


@pytest.mark.parametrize("asks", [lambda: "1", in_a_second], ids=["seconds", "a time"])
def test_a_source_that_asks_to_wait_is_left_alone_that_long(web: Web, asks: Callable[[], str]) -> None:
    web.scripts["/"] = in_turn(answer(b"", 429, Retry_After=asks()), answer(BODY))
    began = time.monotonic()
    assert asyncio.run(read(web.url()))[1] == BODY
    assert 0.9 < time.monotonic() - began < 4


@pytest.mark.parametrize("asks", ["3600", "9" * 5000, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_source_that_asks_for_too_long_a_wait_is_not_asked_again(web: Web, asks: str) -> None:
    web.scripts["/"] = answer(b"", 503, Retry_After=asks)
    with pytest.raises(FeedError, match=r"^answered 503 and asks to wait for more than 30 s$"):
        asyncio.run(read(web.url()))
    assert len(web.asked) == 1


@pytest.mark.parametrize("asks", ["soon", "-5", "1e9", "Mon, 16 Nov 1970 05:00:00 GMT", "Mon, 99 Nov 2026", ""])
def test_a_wait_that_makes_no_sense_is_not_honoured(web: Web, asks: str) -> None:
    web.scripts["/"] = in_turn(answer(b"", 503, Retry_After=asks), answer(BODY))
    began = time.monotonic()
    assert asyncio.run(read(web.url()))[1] == BODY
    assert time.monotonic() - began < 2


def test_a_wait_ends_with_the_time_of_the_caller(web: Web) -> None:
    web.scripts["/"] = answer(b"", 503, Retry_After="20")

    async def run() -> None:
        async with asyncio.timeout(0.5):
            await read(web.url())

    began = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(run())
    assert time.monotonic() - began < 1.5


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed_also_relative_ones(web: Web, status: int) -> None:
    web.scripts["/"] = moved("/a/b", status)
    web.scripts["/a/b"] = moved("c?page=2", status)
    web.scripts["/a/c?page=2"] = moved(f"//127.0.0.1:{web.port}/end#part", status)
    web.scripts["/end"] = answer(BODY, ETag='"end"')
    page, body = asyncio.run(read(web.url(), Validators('"old"')))
    assert (body, page.validators.etag) == (BODY, '"end"')
    assert page.url.startswith(web.url("/end"))
    assert [asked.headers["if-none-match"] for asked in web.asked] == ['"old"'] * 4


def test_five_redirects_are_followed_and_not_six(web: Web) -> None:
    for number in range(6):
        web.scripts[f"/{number}"] = moved(f"/{number + 1}")
    web.scripts["/6"] = answer(BODY)
    assert asyncio.run(read(web.url("/1")))[1] == BODY
    with pytest.raises(FeedError, match=r"^redirects more than 5 times$"):
        asyncio.run(read(web.url("/0")))


@pytest.mark.parametrize(
    "to",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1/",
        "data:,jobs",
        "javascript:1",
    ],
)
def test_a_redirect_leads_nowhere_but_to_http(web: Web, to: str) -> None:
    web.scripts["/"] = moved(to)
    with pytest.raises(
        FeedError, match=r"^(leads to an address that is not http|its address, or one it redirects to)"
    ):
        asyncio.run(read(web.url()))
    assert len(web.asked) == 1


@pytest.mark.parametrize(
    "to", ["http://[::1", "http:////[", ":http::1", "http://a b/", "http://127.0.0.1:99999/", "http://xn--/", "\x7f"]
)
def test_a_redirect_that_is_no_address_is_a_failed_fetch(web: Web, to: str) -> None:
    web.scripts["/"] = moved(to)
    with pytest.raises(FeedError):
        asyncio.run(read(web.url()))


def test_credentials_go_to_their_own_host_only(web: Web) -> None:
    other = Web()
    web.scripts["/"] = moved("/here")
    web.scripts["/here"] = moved(other.url("/there"))
    other.scripts["/there"] = answer(BODY)
    try:
        asyncio.run(read(web.url().replace("127.", "user:hunter2@127.")))
    finally:
        other.close()
    assert [asked.headers.get("authorization") for asked in web.asked] == ["Basic dXNlcjpodW50ZXIy"] * 2
    assert "authorization" not in other.asked[0].headers


def test_no_cookie_is_kept(web: Web) -> None:
    web.scripts["/"] = answer(BODY, Set_Cookie="visitor=1; Path=/")

    async def twice() -> None:
        async with client() as http:
            for _ in range(2):
                async with aclosing(await get(http, source(), web.url(), accept="*/*")) as page:
                    assert [chunk async for chunk in page.chunks()] == [BODY]

    asyncio.run(twice())
    assert [asked.headers.get("cookie") for asked in web.asked] == [None, None]
    assert web.visitors == 1, "the second page should come over the same connection"


def test_neither_texts_nor_logs_hold_the_address(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "hunter2"
    for number, (script, _) in enumerate(REFUSED.values()):
        web.scripts[f"/{number}?key={secret}"] = script
    for number, script in enumerate(
        [*PASSING.values(), moved(f"http://127.0.0.1:1/{secret}"), moved(f"ftp://{secret}/")]
    ):
        web.scripts[f"/p{number}?key={secret}"] = script
    web.scripts[f"/good?key={secret}"] = answer(BODY)
    errors = []
    for path in web.scripts:
        try:
            asyncio.run(read(web.url(path).replace("127.", f"{secret}@127.")))
        except FeedError as error:
            errors.append(error)
    assert len(errors) == len(web.scripts) - 1
    assert all(error.__cause__ is None for error in errors)
    assert all(error.__context__ is None or error.__suppress_context__ for error in errors)
    for text in [*map(str, errors), caplog.text]:
        assert secret not in text
        assert "127.0.0.1" not in text
