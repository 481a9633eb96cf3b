"""Whatever a feed sends, to whatever kind: openings that can be stored, items counted as rejected, or a FeedError."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opening_signals.errors import FeedError
from opening_signals.feeds import KINDS
from opening_signals.feeds.model import Source
from tests.faults.profile import one_in
from tests.feeds import FIXTURES, Read, cut, read, source

FIELDS = {
    "external_id": "id",
    "title": "title || to_string(name)",
    "organization": "max_by(jobs, &id).title",
    "location": "join(', ', sort(items))",
    "url": "url",
    "posted_at": "date_published",
}
OWN = {"items": "jobs.item", "fields": FIELDS, "skip": "id > `5` || isListed", "marker": "name", "dates": "epoch_ms"}
SOURCES = {kind: source(kind) for kind in KINDS} | {
    "json": source("json", feed=OWN),
    "socrata": source("socrata", feed={"items": "item", "fields": FIELDS, "dates": "%d %b %Y"}),
}
NAMES = sorted(
    {"jobs", "items", "offers", "content", "name", "version", "apiVersion", "totalFound", "next_url", "item", ""}
    | {
        "id",
        "shortcode",
        "title",
        "text",
        "location",
        "url",
        "isListed",
        "date_published",
        "createdAt",
        "published_on",
    }
)
TAGS = ["rss", "channel", "item", "feed", "entry", "workzag-jobs", "position", "id", "guid", "title", "name", "link"]
ATTRIBUTES = ["", 'href="/a"', 'rel="self"', 'href="/b" rel="alternate"']
SHARDS = [
    *(b"null", b"true", b"-", b"1e999", b"-1E+999", b"1e99999999999999999999", b"9" * 400, b"9" * 4500, b"0.1"),
    *(
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b":",
        b'"',
        b"\\",
        b"[" * 600,
        b'{"a":' * 600,
        b'"\\ud800"',
        b"\\udc00",
        b"\\u0000",
    ),
    *(
        b"\\ud83d\\ude00",
        b"\\\\ud800",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xf0\x9f",
        b"\xef\xbb\xbf",
        b"\0",
        b"\xef\xb7\x90",
    ),
    *(
        b"<",
        b">",
        b"</",
        b"&",
        b"&#0;",
        b"&lol;",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]>",
        b"<![CDATA[",
        b"]]>",
        b"<a>" * 200,
    ),
    *(
        b"<?xml version='1.0' encoding='utf-7'?>",
        b"<item>",
        b"</item>",
        b"xmlns:a=''",
        b"2026-11-05",
        b"<!--",
        b"-->",
    ),
]

hostile_text = (
    st.text(st.characters(exclude_categories=()), max_size=8)
    | st.sampled_from(
        [
            "2026-11-02T14:00:00Z",
            "https://a.example/1",
            "javascript:1",
            "x" * 1001,
            "\0",
            "\ud83d",
            "\ude00",
            "http://[",
        ],
    )
    | st.sampled_from(["😀", "\\😀", "\\\\", "\\ud83d", "\\\\ud83d\\ude00", "a\ude00\ud83d", "é", "\ufdd0"])
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(10**90, 10**91) | st.floats() | hostile_text,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | hostile_text, inner, max_size=6)
    ),
    max_leaves=30,
)


# An item that every JSON kind accepts, in lists and beside marks that every JSON kind knows.
GOOD: dict[Any, Any] = {"id": "1", "shortcode": "1", "title": "Baker", "text": "Baker", "name": "Baker"}
LISTS = ("jobs", "items", "offers", "content")
MARKS = {"name": "Acme", "version": "1.1", "apiVersion": "1", "totalFound": 1}
oddities = st.dictionaries(st.sampled_from([*NAMES, *"abcdef"]) | hostile_text, values, max_size=3)


@st.composite
def json_documents(draw: st.DrawFn) -> bytes:
    """Feeds that are nearly right, with anything in them."""
    items = [GOOD | odd for odd in draw(st.lists(oddities, max_size=4))] + draw(st.lists(values, max_size=2))
    document = draw(st.sampled_from([items, MARKS | dict.fromkeys(LISTS, items)]))
    if isinstance(document, dict) and draw(st.booleans()):
        document = draw(st.permutations(list((document | draw(oddities)).items())).map(dict))
    return json.dumps(document, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")


@st.composite
def xml_documents(draw: st.DrawFn) -> bytes:
    opened: list[str] = []
    written = [draw(st.sampled_from(["<rss><channel>", "<feed>", "<workzag-jobs>", ""]))]
    for _ in range(draw(st.integers(0, 30))):
        tag = draw(st.sampled_from(TAGS))
        step = draw(st.sampled_from(["open", "close", "empty", "text"]))
        if step == "open":
            opened.append(tag)
            written.append(f"<{tag} {draw(st.sampled_from(ATTRIBUTES))}>")
        elif step == "close" and opened:
            written.append(f"</{opened.pop()}>")
        else:
            written.append(f"<{tag}/>" if step == "empty" else draw(hostile_text).replace("<", "&lt;"))
    ends = {"<rss><channel>": "</channel></rss>", "<feed>": "</feed>", "<workzag-jobs>": "</workzag-jobs>", "": ""}
    written += [f"</{tag}>" for tag in reversed(opened)] + [ends[written[0]]]
    return "".join(written).encode("utf-8", "surrogatepass")


@st.composite
def broken_fixtures(draw: st.DrawFn) -> bytes:
    body = draw(st.sampled_from(sorted(path.read_bytes() for path in FIXTURES.iterdir())))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        end = start + draw(st.integers(0, 6))
        body = body[:start] + draw(st.sampled_from(SHARDS) | st.binary(max_size=4)) + body[end:]
    return body


documents = st.one_of(st.binary(max_size=60), json_documents(), xml_documents(), broken_fixtures())


def outcome(origin: Source, chunks: list[bytes]) -> Read | None:
    """What became of the feed; None when it ended in a FeedError. Any other error is the test's."""
    try:
        return read(origin, chunks)
    except FeedError:
        return None


def check_storable(found: Read) -> None:
    for opening in found.openings:
        assert all("\0" not in part for part in opening if isinstance(part, str))
        assert opening.external_id
        assert opening.title
        assert isinstance(json.loads(opening.payload.encode()), dict)
        assert "".join(part for part in opening if isinstance(part, str)).encode()
    for reason in found.rejected | found.repaired:
        assert len(reason) < 200
        assert reason.isprintable()


@st.composite
def cuts(draw: st.DrawFn, document: bytes) -> list[bytes]:
    every = draw(st.none() | st.integers(1, 9))
    places = range(0, len(document), every) if every else draw(st.lists(st.integers(0, len(document)), max_size=12))
    return cut(document, places)


@pytest.mark.parametrize("kind", one_in(3, sorted(KINDS)))
@settings(max_examples=50, deadline=None)
@given(data=st.data(), document=documents)
def test_no_feed_does_worse_than_fail_and_no_cut_changes_it(kind: str, data: st.DataObject, document: bytes) -> None:
    origin = SOURCES[kind]
    whole = outcome(origin, [document])
    assert outcome(origin, data.draw(cuts(document))) == whole
    if whole:
        check_storable(whole)
