"""A feed is read up to its last page, no further and no less."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from opening_signals.errors import FeedError
from opening_signals.feeds.paging import AnyPaging, Paging

HERE = "https://feeds.example/jobs?state=open"
OFFSET = {"style": "offset", "size": 50}


def paging(said: dict[str, Any]) -> Paging:
    made: Paging = TypeAdapter(AnyPaging).validate_python(said)
    return made


@pytest.mark.parametrize(
    ("said", "url", "items", "found", "after"),
    [
        ({"style": "none"}, HERE, 1000, {}, None),
        (OFFSET, f"{HERE}&limit=50&offset=0", 50, {}, f"{HERE}&limit=50&offset=50"),
        (OFFSET, f"{HERE}&limit=50&offset=50", 49, {}, None),
        (OFFSET, f"{HERE}&limit=20&offset=0", 20, {}, f"{HERE}&limit=20&offset=20"),
        (OFFSET, f"{HERE}&limit=x&offset=y", 50, {}, f"{HERE}&limit=x&offset=50"),
        (OFFSET, HERE, 0, {}, None),
        (OFFSET | {"total": "total"}, f"{HERE}&offset=0", 10, {"total": 11}, f"{HERE}&offset=10"),
        (OFFSET | {"total": "total"}, f"{HERE}&offset=10", 1, {"total": 11}, None),
        (OFFSET | {"total": "total"}, f"{HERE}&offset=0", 50, {"total": 50}, None),
        (OFFSET | {"total": "total"}, f"{HERE}&offset=0", 10, {"total": "11"}, None),
        (OFFSET | {"offset": "$offset"}, f"{HERE}&%24offset=50", 50, {}, f"{HERE}&$offset=100"),
        ({"style": "page"}, HERE, 1, {}, f"{HERE}&page=2"),
        ({"style": "page"}, f"{HERE}&page=2", 1, {}, f"{HERE}&page=3"),
        ({"style": "page"}, f"{HERE}&page=3", 0, {}, None),
        ({"style": "page", "size": 20}, HERE, 19, {}, None),
        ({"style": "page", "page": "p", "first_page": 0}, HERE, 5, {}, f"{HERE}&p=1"),
        ({"style": "next", "next": "next"}, HERE, 5, {"next": "?page=2"}, "https://feeds.example/jobs?page=2"),
        ({"style": "next", "next": "next"}, HERE, 0, {"next": f"{HERE}&p=2"}, f"{HERE}&p=2"),
        ({"style": "next", "next": "next"}, HERE, 5, {}, None),
        ({"style": "next", "next": "next"}, HERE, 5, {"next": ""}, None),
        ({"style": "next", "next": "next"}, HERE, 5, {"next": False}, None),
    ],
)
def test_the_next_page(said: dict[str, Any], url: str, items: int, found: dict[str, Any], after: str | None) -> None:
    assert paging(said).following(url, items, found) == after


@pytest.mark.parametrize(
    "said",
    [
        "http://other.example/",
        "http://feeds.example/jobs",
        "//169.254.169.254/latest",
        "file:///etc/passwd",
        "javascript:1",
        "http://[",
        "https://feeds.example:99999/",
        HERE,
        "/a b",
        7,
        {"href": "/2"},
        True,
    ],
)
def test_a_next_page_that_leads_astray_is_an_error(said: Any) -> None:
    with pytest.raises(FeedError) as caught:
        paging({"style": "next", "next": "next"}).following(HERE, 5, {"next": said})
    assert "example" not in str(caught.value)


def test_a_first_page_that_is_empty_before_the_total_is_an_error_and_a_later_one_is_the_last() -> None:
    counted = paging(OFFSET | {"total": "total"})
    with pytest.raises(FeedError, match="it says that it has 250 items"):
        counted.following(f"{HERE}&offset=0", 0, {"total": 250})
    assert counted.following(f"{HERE}&offset=100", 0, {"total": 250}) is None


def test_the_largest_total_counts_where_later_pages_say_less() -> None:
    counted = paging(OFFSET | {"total": "total"})
    assert counted.following(f"{HERE}&offset=20", 20, {"total": 0}, 60) == f"{HERE}&offset=40"
    assert counted.following(f"{HERE}&offset=40", 20, {"total": 0}, 60) is None
    assert counted.following(f"{HERE}&offset=0", 50, {"total": 0}) == f"{HERE}&offset=50"


@pytest.mark.parametrize(
    ("said", "url", "anchored"),
    [
        (OFFSET, f"{HERE}&offset=50", f"{HERE}&offset=49"),
        (OFFSET, f"{HERE}&offset=0", None),
        (OFFSET, f"{HERE}&limit=1&offset=1", None),
        ({"style": "page"}, f"{HERE}&page=2", None),
        ({"style": "next", "next": "next"}, HERE, None),
    ],
)
def test_a_page_can_be_asked_to_begin_one_item_earlier(said: dict[str, Any], url: str, anchored: str | None) -> None:
    assert paging(said).anchored(url) == anchored


def test_the_first_page_has_its_parameters_and_keeps_those_it_had() -> None:
    assert paging(OFFSET).first(HERE) == f"{HERE}&limit=50&offset=0"
    assert paging(OFFSET).first(f"{HERE}&limit=10") == f"{HERE}&limit=10&offset=0"
    assert paging({"style": "page"}).first(HERE) == HERE
