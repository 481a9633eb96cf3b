"""A JSON feed that nobody has a preset for is described in the sources file, without code."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from opening_signals.errors import FeedError
from opening_signals.sources_file import SourcesError, load
from tests.feeds import fixture, read

OWN = """
[[source]]
name = "permits"
kind = "json"
url = "https://city.example/permits.json?state=new"
items = "data.permits.item"
marker = "data.updated"
skip = "status == 'withdrawn'"
dates = "%d.%m.%Y"
paging = { style = "page", page = "p" }
[source.fields]
external_id = "no"
title = "name || kind"
location = "join(', ', [street, town])"
posted_at = "issued"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sources.toml"


def test_a_json_feed_needs_no_code(path: Path) -> None:
    path.write_text(OWN)
    (permits,) = load(str(path))
    page = json.dumps(
        {
            "data": {
                "updated": "today",
                "permits": [
                    {"no": 17, "kind": "Bakery", "street": "Mill Rd", "town": "Ely", "issued": "05.11.2026"},
                    {"no": 18, "name": "Gone", "status": "withdrawn"},
                ],
            }
        }
    )
    found = read(permits, [page.encode()])
    assert [opening[:6] for opening in found.openings] == [
        ("17", "Bakery", None, "Mill Rd, Ely", None, datetime(2026, 11, 5, tzinfo=UTC))
    ]
    assert found.skipped == 1
    assert found.next_url == "https://city.example/permits.json?state=new&p=2"
    with pytest.raises(FeedError, match=r"no `data\.updated`"):
        read(permits, [page.replace("updated", "other").encode()])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('url = "https://city.example/permits.json?state=new"', "", "the field 'url' is missing"),
        ('items = "data.permits.item"', "", "the field 'items' is missing"),
        (
            "permits.item",
            "permits",
            "'items' must be a path in ijson's notation: jobs.item, or item when the document is one list",
        ),
        ('title = "name || kind"', "", "the field 'fields.title' is missing"),
        ('title = "name || kind"', "title = 7", "'fields.title' must be a JMESPath"),
        ('title = "name || kind"', 'titel = "name"\ntitle = "name"', "'fields.titel' is an unknown field"),
        (
            'title = "name || kind"',
            'title = "name ||"',
            "'fields.title' is not a JMESPath: Invalid jmespath expression: Incomplete expression:",
        ),
        ('style = "page", ', "", "the field 'paging.style' is missing"),
        ('style = "page"', 'style = "scroll"', "'paging.style' must be none, offset, page or next"),
        ('page = "p"', "page = 7", "'paging.page' should be a valid string"),
        ('page = "p"', 'limit = "p"', "'paging.limit' is an unknown field"),
        ('style = "page", page = "p"', 'style = "next"', "the field 'paging.next' is missing"),
        (
            "%d.%m.%Y",
            "german",
            "'dates' must be iso, date, epoch_ms, epoch_s or a strptime format such as %Y-%m-%d %H:%M:%S UTC",
        ),
        (
            "%d.%m.%Y",
            "%d.%Q",
            "'dates' must be iso, date, epoch_ms, epoch_s or a strptime format such as %Y-%m-%d %H:%M:%S UTC",
        ),
        ("marker", "markr", "'markr' is an unknown field"),
        ("marker = ", "feed = {}\nmarker = ", "'feed' is an unknown field"),
        ('kind = "json"', 'kind = "rss"', "'items' is an unknown field"),
    ],
)
def test_a_fault_in_a_feed_of_ones_own_names_the_field(path: Path, old: str, new: str, sentence: str) -> None:
    assert old in OWN
    path.write_text(OWN.replace(old, new, 1))
    with pytest.raises(SourcesError) as caught:
        load(str(path))
    assert str(caught.value) == f"source 'permits': {sentence}"


def test_a_data_set_needs_no_more_than_what_its_titles_are(path: Path) -> None:
    path.write_text(
        '[[source]]\nname = "nyc"\nkind = "socrata"\ndomain = "data.city.example"\ndataset = "43nn-pn8j"\n'
        'fields = { title = "dba" }\nquery = { "$where" = "boro = \'Queens\'" }\n'
    )
    (nyc,) = load(str(path))
    assert nyc.url.endswith("?$select=:*,*&$order=:id&$where=boro%20%3D%20%27Queens%27&$limit=1000&$offset=0")
    assert [opening[:2] for opening in read(nyc, [fixture("socrata.json")]).openings] == [
        ("row-abcd_efgh.ijkl", "LITTLE ACORN CAFE"),
        ("row-abcd_efgh.ijkm", "OLD OAK DINER"),
    ]
