"""An item that is too large costs only itself; what cannot be skipped ends its source. Nothing fills the memory."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from opening_signals import collect
from opening_signals.errors import FeedError
from opening_signals.feeds.json_bytes import LongTexts
from opening_signals.feeds.kind import MOST_COST, NODE, TOO_LARGE
from opening_signals.feeds.model import Opening
from tests.feeds import cut, read, source

MB = 1024**2
PIECES = (30_001, 100 * MB)
REJECTED = {f"item: {TOO_LARGE.why}": 1}
COOK = {"id": 2, "title": "Cook"}


def ids(body: bytes, kind: str = "greenhouse", every: int = 65_536) -> tuple[list[str], dict[str, int]]:
    """The ids of the openings, and what was rejected."""
    found = read(source(kind), cut(body, range(0, len(body), every)))
    return [opening.external_id for opening in found.openings], dict(found.rejected)


def board(*items: Any) -> bytes:
    return json.dumps({"jobs": items}, ensure_ascii=False).encode()


def rss(*items: str, root: str = "<rss>") -> bytes:
    return f"{root}<channel>{''.join(items)}</channel></rss>".encode()


def item(identity: int, inside: str = "", tag: str = "<item>") -> str:
    return f"{tag}<guid>{identity}</guid><title>Baker</title>{inside}</item>"


LARGE: dict[str, Any] = {
    "a long text": "a" * (MB + 1),
    "a long text of wide characters": "😀" * 300_000,
    "a long text of escapes": '\\"' * (MB // 2),
    "a long text of mostly spaces": ("a" + " " * 10_000) * 200,
    "a long key": {"k" * (MB + 1): 1},
    "many texts": ["a" * 1000] * 1050,
    "many keys": {str(number): None for number in range(MOST_COST // NODE)},
    "many lists": [[]] * (MOST_COST // NODE),
    "many numbers": list(range(MOST_COST // NODE)),
    "long numbers": [10**3990] * 700,
    "many of all": [{"a": [1, None, "x"]}] * 6000,
}


@pytest.mark.parametrize("every", PIECES)
@pytest.mark.parametrize("large", LARGE)
def test_an_item_that_is_too_large_costs_only_itself(large: str, every: int) -> None:
    body = board({"id": 1, "title": "Baker", "content": LARGE[large]}, COOK)
    assert ids(body, every=every) == (["2"], REJECTED)


@pytest.mark.parametrize("every", PIECES)
def test_an_item_just_below_the_bound_is_kept(every: int) -> None:
    values = [None] * ((MOST_COST - 1000) // NODE)
    assert ids(board({"id": 1, "title": "Baker", "content": values}, COOK), every=every) == (["1", "2"], {})
    text = "a" * (MOST_COST - 1000)
    assert ids(board({"id": 1, "title": "Baker", "content": text}, COOK), every=every) == (["1", "2"], {})


def test_what_one_item_cost_is_not_counted_for_the_next() -> None:
    half = {"title": "Baker", "content": ["a" * 1000] * 500}
    assert ids(board(*({"id": number} | half for number in range(5)))) == ([*"01234"], {})


def test_a_long_text_is_taken_out_up_to_the_quote_that_ends_it() -> None:
    texts = LongTexts()
    assert texts.cut(b'{"a":"b') == (b'{"a":"b', False)
    texts.note(b"b" * (MB + 1), progress=False)
    assert texts.cut(b"b" * 1000) == (b"", True)
    assert texts.cut(rb'b\"b\\","c":1') == (b'","c":1', True)


def test_a_long_text_beside_the_items_is_no_path_and_no_address() -> None:
    long = "a" * (2 * MB)
    assert ids(json.dumps({"about": long, long: [long], "jobs": [COOK]}).encode()) == (["2"], {})
    feed = {"version": "1.1", "items": [COOK], "next_url": f"/{long}"}
    with pytest.raises(FeedError, match="the address of its next page"):
        ids(json.dumps(feed).encode(), "jsonfeed")


@pytest.mark.parametrize("inside", ['"jobs":[' + " " * (2 * MB), '"a":"' + " " * (2 * MB)])
def test_a_gap_without_an_end_is_the_end_of_the_source(inside: str) -> None:
    with pytest.raises(FeedError, match="went on for more than 1 MiB without a value"):
        ids(f"{{{inside}".encode())


LARGE_XML = {
    "a long text": f"<a>{'a' * (MB + 1)}</a>",
    "a long text in a CDATA section": f"<a><![CDATA[{'a' * (MB + 1)}]]></a>",
    "many elements": "<a/>" * (MOST_COST // NODE),
    "many elements of one letter": "<a>b</a>" * (MOST_COST // NODE),
    "elements in elements": "<a><b><c>d</c></b></a>" * 8000,
    "many attributes": "<a b='1' c='2' d='3'/>" * 6000,
    "long attributes": f"<a b='{'c' * 1000}'/>" * 1050,
    "items in the item": f"<item>{'a' * 1000}</item>" * 1050,
}


@pytest.mark.parametrize("every", PIECES)
@pytest.mark.parametrize("large", LARGE_XML)
def test_an_item_of_xml_that_is_too_large_costs_only_itself(large: str, every: int) -> None:
    assert ids(rss(item(1, LARGE_XML[large]), item(2)), "rss", every) == (["2"], REJECTED)


@pytest.mark.parametrize("every", PIECES)
def test_an_item_of_xml_just_below_the_bound_is_kept(every: int) -> None:
    text = f"<a>{'a<!---->' * (MOST_COST - 1000)}</a>"
    assert ids(rss(item(1, text), item(2)), "rss", every) == (["1", "2"], {})
    elements = "<a/>" * ((MOST_COST - 1000) // NODE)
    assert ids(rss(item(1, elements), item(2)), "rss", every) == (["1", "2"], {})


ENDLESS_XML = {
    "a tag": (rss(item(1, tag=f"<item a='{'b' * 400_000}'>")), "a tag or a comment of more than 256 KiB"),
    "a comment": (rss(f"<!--{'b' * 400_000}-->"), "a tag or a comment of more than 256 KiB"),
    "many names": (rss(*(f"<a{number}/>" for number in range(2500))), "too many names"),
    "many names of attributes": (rss(*(f"<a b{number}=''/>" for number in range(2500))), "too many names"),
    "many namespaces": (rss(*(f"<a xmlns:n='u:{number}'/>" for number in range(2500))), "too many names"),
    "many prefixes": (rss(*(f"<a xmlns:n{number}='u:'/>" for number in range(2500))), "too many names"),
    "a long name": (rss(f"<a{'b' * 210_000}/>"), "too many names, or too long ones"),
    "names in a long namespace": (
        rss(*(f"<n:a{number}/>" for number in range(10)), root=f"<rss xmlns:n='u:{'u' * 30_000}'>"),
        "too many names, or too long ones",
    ),
}


@pytest.mark.parametrize("endless", ENDLESS_XML)
def test_what_expat_would_keep_is_the_end_of_the_source(endless: str) -> None:
    body, said = ENDLESS_XML[endless]
    with pytest.raises(FeedError, match=said):
        ids(body, "rss")


def test_a_long_link_is_not_kept_in_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opening_signals.feeds.rss.urljoin", None)
    body = rss(*(item(number, f"<link>https://a.example/{'b' * 3000}{number}</link>") for number in range(50)))
    assert len(ids(body, "rss")[0]) == 50


def opening(number: int, size: int) -> Opening:
    return Opening.of({"a": "x" * size}, external_id=str(number), title="Baker")


def pages(openings: Iterable[Opening], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr(collect, "PAGE", 10)
    buffer, sizes = collect.PageBuffer(), []
    for each in openings:
        if page := buffer.add(each):
            sizes.append(len(page))
    return [*sizes, len(buffer.rest())]


def test_openings_are_handed_on_by_their_number_or_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pages((opening(number, 10) for number in range(25)), monkeypatch) == [10, 10, 5]
    large = [opening(number, 900_000) for number in range(5)]
    assert pages(large, monkeypatch) == [3, 2]
    assert pages([opening(number, 10) for number in range(3)] + large, monkeypatch) == [6, 2]
