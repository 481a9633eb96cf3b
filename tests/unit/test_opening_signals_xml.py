"""The XML kinds declare nothing, fetch nothing, and lose one item at a time."""

import json
from itertools import chain, repeat

import pytest

from opening_signals.errors import FeedError
from tests.feeds import cut, read, source

RSS = source("rss", "https://city.example/feed")
PERSONIO = source("personio", "https://user:secret@acme.jobs.personio.de:8443/xml?language=en")
LAUGHS = """<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<rss><channel><item><title>&b;</title></item></channel></rss>"""


def rss(*items: str) -> bytes:
    return f"<rss><channel>{''.join(f'<item>{item}</item>' for item in items)}</channel></rss>".encode()


@pytest.mark.parametrize(
    "body",
    [
        LAUGHS,
        '<!DOCTYPE rss SYSTEM "http://127.0.0.1/evil.dtd"><rss><channel/></rss>',
        '<!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]><rss><channel><item>&x;</item></channel></rss>',
        "<!DOCTYPE rss [<!ENTITY % x SYSTEM 'http://127.0.0.1/'> %x;]><rss><channel/></rss>",
        "<!DOCTYPE html><rss><channel/></rss>",
    ],
)
def test_a_document_type_is_refused(body: str) -> None:
    with pytest.raises(FeedError, match="has a document type"):
        read(RSS, cut(body.encode(), range(0, len(body), 5)))


@pytest.mark.parametrize(
    "body",
    [
        b"<rss><channel><item>&undeclared;</item></channel></rss>",
        b"<rss><channel><item></channel></rss>",
        b"<rss><channel/></rss><rss/>",
        b"<rss><channel><item>\xff</item></channel></rss>",
        b"<rss><channel><item>&#0;</item></channel></rss>",
        b"<?xml version='1.0' encoding='none-such'?><rss><channel/></rss>",
        b"<?xml version='1.0' encoding='shift_jis'?><rss><channel/></rss>",
        b"<rss><channel>" + b"<a>" * 10_000,
        b'{"jobs": []}',
    ],
    ids=lambda body: body[:50],
)
def test_what_is_not_well_formed_is_an_error(body: bytes) -> None:
    with pytest.raises(FeedError):
        read(RSS, [body])


def test_an_item_without_an_end_is_an_error_before_it_fills_the_memory() -> None:
    endless = chain([b"<rss><channel><item><title>"], repeat(b"x" * 1_000_000, 100))
    with pytest.raises(FeedError, match="without a complete item"):
        read(RSS, endless)


def test_other_encodings_are_read() -> None:
    head = "<?xml version='1.0' encoding='{}'?>"
    for encoding in ("iso-8859-1", "utf-16", "windows-1252"):
        body = (head.format(encoding) + rss("<guid>1</guid><title>Café</title>").decode()).encode(encoding)
        assert [opening.title for opening in read(RSS, cut(body, range(len(body)))).openings] == ["Café"]


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ("", "item"),
        ("only text", "item"),
        ("<guid>1</guid>", "title"),
        ("<title>a</title>", "external_id"),
        ("<guid>1</guid><title/>", "title"),
    ],
)
def test_a_bad_item_costs_only_itself(bad: str, field: str) -> None:
    good = "<guid>{}</guid><title>a</title>"
    found = read(RSS, [rss(good.format(1), bad, good.format(2))])
    assert [opening.external_id for opening in found.openings] == ["1", "2"]
    ((reason, count),) = found.rejected.items()
    assert (reason.partition(":")[0], count) == (field, 1)


@pytest.mark.parametrize(
    ("odd", "field"),
    [
        ("<link>javascript:alert(1)</link>", "url"),
        ("<link>http://[</link>", "url"),
        ("<pubDate>soon</pubDate>", "posted_at"),
        ("<pubDate>Mon, 09 Nov 0026 08:00:00 +9999999</pubDate>", "posted_at"),
        ("<pubDate>Thu, 01 Jan 1900 08:00:00 GMT</pubDate>", "posted_at"),
    ],
)
def test_an_odd_link_or_time_costs_only_itself(odd: str, field: str) -> None:
    found = read(RSS, [rss(f"<guid>1</guid><title>a</title>{odd}")])
    (opening,) = found.openings
    assert (getattr(opening, field), found.rejected.total()) == (None, 0)
    ((reason, count),) = found.repaired.items()
    assert (reason.partition(":")[0], count) == (field, 1)


def test_an_item_is_kept_as_json_with_attributes_and_lists() -> None:
    item = (
        '<guid isPermaLink="false">1</guid><title> a <b>c</b></title><x:y xmlns:x="urn:x">z</x:y><c>1</c><c/><c>3</c>'
    )
    (opening,) = read(RSS, [rss(item.replace(" <b>c</b>", ""))]).openings
    assert json.loads(opening.payload) == {
        "guid": {"@isPermaLink": "false", "#text": "1"},
        "title": "a",
        "x:y": "z",
        "c": ["1", "", "3"],
    }


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("<b>bold</b> &amp; co", "bold & co"),
        (
            '<a href="https://x.example/?a=1&amp;b=2" class="c">Cook</a><br/>Night <STRONG>shift</STRONG>',
            "Cook Night shift",
        ),
        ("Caf&eacute; &#8211; R&D, AT&T, Q&amplifier", "Café \u2013 R&D, AT&T, Q&amplifier"),
        ("a < b, a<b and c>d", "a < b, a<b and c>d"),
        ("List<T> &lt;b&gt;", "List<T> <b>"),
    ],
)
def test_a_title_is_plain_text(written: str, title: str) -> None:
    found = read(RSS, [rss(f"<guid>1</guid><title><![CDATA[{written}]]></title>")])
    assert ([opening.title for opening in found.openings], found.repaired.total()) == ([title], 0)


def test_an_atom_feed_may_have_a_prefix() -> None:
    body = b'<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:entry><a:id>1</a:id><a:title>x</a:title></a:entry></a:feed>'
    assert [opening.external_id for opening in read(RSS, [body]).openings] == ["1"]


def test_a_position_is_found_on_its_own_host_and_without_the_secret() -> None:
    body = b"<workzag-jobs><position><id>7/8</id><name>x</name></position></workzag-jobs>"
    (opening,) = read(PERSONIO, [body]).openings
    assert opening.url == "https://acme.jobs.personio.de:8443/job/7%2F8"


def test_a_position_without_an_id_is_counted() -> None:
    found = read(PERSONIO, [b"<workzag-jobs><position><name>x</name></position><position/></workzag-jobs>"])
    assert (found.openings, found.rejected.total()) == ([], 2)
