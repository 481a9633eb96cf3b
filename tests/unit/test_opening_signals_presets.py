"""Every preset and every kind in code reads a feed in its real shape, and notices one that is gone."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from opening_signals.errors import FeedError
from opening_signals.feeds import KINDS
from opening_signals.feeds.json_feed import PRESETS
from opening_signals.feeds.model import Opening, Source
from opening_signals.sources_file import load
from tests.feeds import FIXTURES, cut, fixture, read

FEEDS: dict[str, Any] = tomllib.loads(FIXTURES.with_suffix(".toml").read_text(encoding="utf-8"))


def kind_of(name: str) -> str:
    return "rss" if name == "atom.xml" else name.partition(".")[0]


def said(opening: Opening) -> list[str]:
    *texts, posted_at = opening[:6]
    return [*(text or "" for text in texts), posted_at.isoformat() if posted_at else ""]


@pytest.fixture
def origin(name: str, tmp_path: Path) -> Source:
    path = tmp_path / "sources.toml"
    path.write_text(f'[[source]]\nname = "acme"\nkind = "{kind_of(name)}"\n{FEEDS[name]["source"]}\n')
    (source,) = load(str(path))
    return source


def test_every_kind_and_every_fixture_is_here() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == set(FEEDS)
    assert {kind_of(name) for name in FEEDS} | {"json"} == set(KINDS)
    assert {path.stem for path in PRESETS.iterdir()} == {kind_of(name) for name in FEEDS if name.endswith(".json")}


@pytest.mark.parametrize("name", FEEDS)
def test_a_feed_in_its_true_shape_becomes_openings(name: str, origin: Source) -> None:
    expected = FEEDS[name]
    assert origin.url == expected["address"]
    found = read(origin, [fixture(name)])
    assert [said(opening) for opening in found.openings] == expected["openings"]
    assert (found.skipped, found.rejected, found.repaired) == (expected["skipped"], {}, {})


@pytest.mark.parametrize("name", FEEDS)
def test_where_the_pieces_are_cut_makes_no_difference(name: str, origin: Source) -> None:
    body = fixture(name)
    whole = read(origin, [body])
    assert read(origin, cut(body, range(len(body)))) == whole
    assert read(origin, cut(body, range(0, len(body), 7))) == whole


@pytest.mark.parametrize("name", FEEDS)
def test_a_payload_is_the_item_as_json(name: str, origin: Source) -> None:
    if name.endswith(".json"):
        document = json.loads(fixture(name))
        items = next(
            part for part in [document, *getattr(document, "values", list)()] if isinstance(part, list) and part
        )
        payloads = [json.loads(opening.payload) for opening in read(origin, [fixture(name)]).openings]
        assert payloads
        assert all(payload in items for payload in payloads)


@pytest.mark.parametrize("name", FEEDS)
def test_a_feed_that_is_cut_off_anywhere_is_an_error(name: str, origin: Source) -> None:
    body = fixture(name).rstrip()
    for end in range(0, len(body), 11):
        with pytest.raises(FeedError):
            read(origin, [body[:end]])


GONE = [
    b"",
    b" \n",
    b"<html><body>We have moved</body></html>",
    b"<!DOCTYPE html>\n<html><body>We have moved</body></html>",
    b"null",
    b"{}",
    b'"jobs"',
    b'{"status": 404, "error": "Job not found"}',
    b'{"ok": false, "error": "Document not found"}',
    b'{"jobs": null, "offers": null, "items": null, "content": null}',
    b'{"jobs": {"1": {}}, "apiVersion": "1", "name": "Acme", "totalFound": 1}',
    b"<rdf/>",
    b"<rss></rss>",
    b"\xff\xfe{}",
]


@pytest.mark.parametrize("body", GONE, ids=lambda body: body[:20])
@pytest.mark.parametrize("name", FEEDS)
def test_a_board_that_is_gone_is_an_error(name: str, origin: Source, body: bytes) -> None:
    with pytest.raises(FeedError):
        read(origin, [body])


EMPTY = {
    "greenhouse.json": b'{"jobs": [], "meta": {"total": 0}}',
    "lever.json": b"[]",
    "ashby.json": b'{"jobs": [], "apiVersion": "1"}',
    "workable.json": b'{"name": "Acme", "jobs": []}',
    "recruitee.json": b'{"offers": []}',
    "teamtailor.json": b'{"version": "https://jsonfeed.org/version/1.1", "items": []}',
    "personio.xml": b"<workzag-jobs/>",
    "rss.xml": b"<rss><channel/></rss>",
    "atom.xml": b'<a:feed xmlns:a="http://www.w3.org/2005/Atom"/>',
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_board_without_openings_is_a_board(name: str, origin: Source) -> None:
    assert read(origin, [EMPTY[name]]) == ([], {}, {}, 0, None)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("ashby.json", b'{"jobs": []}'),
        ("ashby.json", b'{"jobs": [], "apiVersion": null}'),
        ("workable.json", b'{"jobs": []}'),
        ("teamtailor.json", b'{"jobs": [], "items": []}'),
        ("smartrecruiters.json", b'{"content": [{"id": "1", "name": "Porter"}]}'),
        ("smartrecruiters.json", b'{"limit": 100, "offset": 0, "totalFound": 0, "content": []}'),
    ],
)
def test_a_list_without_the_marks_of_its_vendor_is_an_error(name: str, origin: Source, body: bytes) -> None:
    with pytest.raises(FeedError):
        read(origin, [body])
