"""A JSON feed becomes openings; a bad item costs itself, and no bytes do worse than end the feed."""

import json
import tracemalloc
from collections import Counter
from itertools import chain, repeat
from typing import Any

import jmespath
import pytest

from opening_signals.errors import FeedError
from opening_signals.feeds import KINDS
from opening_signals.feeds.model import Opening, Source
from opening_signals.feeds.sanitize import BROKEN_TEXT
from opening_signals.feeds.spec import Fields
from tests.feeds import cut, read, source

JOB: dict[str, Any] = {
    "id": 4012345,
    "title": "Store Manager",
    "first_published": "2026-11-02T14:00:00-05:00",
    "location": {"name": "Leeds, UK"},
    "absolute_url": "https://boards.greenhouse.io/acme/jobs/4012345",
    "metadata": None,
}
SOURCE = source("greenhouse")


def openings_of(body: bytes, origin: Source = SOURCE) -> tuple[list[Opening], Counter[str]]:
    found = read(origin, [body])
    assert read(origin, cut(body, range(len(body)))) == found
    return found.openings, found.rejected


def openings_and_repairs(body: bytes, origin: Source = SOURCE) -> tuple[list[Opening], Counter[str]]:
    openings, rejected = openings_of(body, origin)
    assert not rejected
    return openings, read(origin, [body]).repaired


def board(*jobs: Any) -> bytes:
    return json.dumps({"jobs": jobs, "meta": {"total": len(jobs)}}).encode()


def own(**more: Any) -> Source:
    fields = {"external_id": "id", "title": "title"} | more.pop("fields", {})
    return source("json", feed={"items": "jobs.item", "fields": fields} | more)


def test_the_organization_is_the_sources_own_before_the_feeds() -> None:
    job = JOB | {"company_name": "Acme Ltd"}
    (by_feed,), _ = openings_of(board(job))
    (by_source,), _ = openings_of(board(job), SOURCE.model_copy(update={"organization": "Acme"}))
    assert (by_feed.organization, by_source.organization) == ("Acme Ltd", "Acme")


def test_a_job_needs_no_more_than_an_id_and_a_title() -> None:
    (opening,), _ = openings_of(board({"id": "x-1", "title": "Baker"}))
    assert (opening.location, opening.url, opening.posted_at, opening.organization) == (None, None, None, None)


BAD: list[Any] = [
    "a job",
    None,
    [],
    {},
    {key: value for key, value in JOB.items() if key != "id"},
    JOB | {"id": None},
    JOB | {"id": True},
    JOB | {"id": 1.5},
    JOB | {"id": ""},
    JOB | {"title": None},
    JOB | {"title": ["Baker"]},
    JOB | {"title": "\udc00"},
    JOB | {"id": "4\0"},
    JOB | {"id": "4\ud800"},
]
MENDED: list[Any] = [
    JOB | {"title": "Store\0 Manager"},
    JOB | {"title": "Store\udc00 Manager"},
    JOB | {"title": "Store \ud800Manager"},
    JOB | {"metadata": "\\\udfff"},
    JOB | {"\ud800": 1},
    JOB | {"metadata": "\ufdd0"},
    JOB | {"location": {"name": 7}},
    JOB | {"absolute_url": 7},
    JOB | {"absolute_url": "file:///etc/passwd"},
    JOB | {"first_published": "0000-00-00"},
    JOB | {"first_published": "9999-12-31T23:59:59-12:00"},
    JOB | {"first_published": 1762770000},
    JOB | {"metadata": json.loads("[" * 200 + "]" * 200)},
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: ascii(bad)[:60])
def test_a_bad_item_costs_only_itself(bad: Any) -> None:
    openings, rejected = openings_of(board(JOB | {"id": 1}, bad, JOB | {"id": 2}))
    assert [opening.external_id for opening in openings] == ["1", "2"]
    assert rejected.total() == 1


@pytest.mark.parametrize("odd", MENDED, ids=lambda odd: ascii(odd)[:60])
def test_an_odd_item_is_repaired_and_counted(odd: Any) -> None:
    (opening,), repaired = openings_and_repairs(board(odd))
    assert (opening.external_id, opening.title) == ("4012345", "Store Manager")
    assert repaired.total() == 1


@pytest.mark.parametrize("written", [b"Caf\xe9", b"\xed\xa0\x80Caf", b"Caf\xf0\x9f", b"\xc0\x80Caf"])
def test_bytes_that_are_not_utf8_are_taken_out(written: bytes) -> None:
    body = board(JOB | {"id": 1}, JOB | {"title": "Caf?"}).replace(b"Caf?", written)
    openings, repaired = openings_and_repairs(body)
    assert [opening.title for opening in openings] == ["Store Manager", "Caf"]
    assert repaired == {BROKEN_TEXT: 1}


@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"1" + b"0" * 400 + b".5"])
def test_nan_and_infinity_become_null(number: bytes) -> None:
    (opening,), repaired = openings_and_repairs(board(JOB | {"metadata": 123456}).replace(b"123456", number))
    assert json.loads(opening.payload)["metadata"] is None
    assert repaired == {"payload: held NaN or an infinity": 1}


@pytest.mark.parametrize("number", [b"9" * 5000, b"1e" + b"9" * 30])
def test_a_number_that_the_parser_cannot_bear_ends_the_feed(number: bytes) -> None:
    with pytest.raises(FeedError):
        read(SOURCE, cut(board(JOB | {"metadata": 123456}).replace(b"123456", number), range(0, 9000, 100)))


def test_text_of_all_sorts_stays_what_it_is() -> None:
    said = ["😀", "\\", "\\\\", "\\ud83d", "\\\\ud83d\\", '"', "é\n", "\ufffd", "ud83d", "\\😀\\"]
    for body in (
        board(JOB | {"metadata": said}),
        json.dumps({"jobs": [JOB | {"metadata": said}]}, ensure_ascii=False).encode(),
    ):
        (opening,), rejected = openings_of(body)
        assert json.loads(opening.payload)["metadata"] == said
        assert not rejected


def test_numbers_are_kept_as_json_has_them() -> None:
    (opening,), _ = openings_of(board(JOB | {"metadata": [1, -0.5, 1e20, 2**70, 0.1]}))
    assert '"metadata":[1,-0.5,1e+20,1180591620717411303424,0.1]' in opening.payload


def test_a_byte_order_mark_is_skipped() -> None:
    assert len(openings_of(b"\xef\xbb\xbf" + board(JOB))[0]) == 1


def test_duplicates_stay_for_the_merge_to_resolve() -> None:
    openings, _ = openings_of(board(JOB, JOB | {"title": "Other"}))
    assert [opening.title for opening in openings] == ["Store Manager", "Other"]


def test_a_reason_names_the_field_and_never_the_value() -> None:
    _, repaired = openings_and_repairs(
        board(JOB, JOB | {"absolute_url": "ftp://secret"}, JOB | {"absolute_url": "ftp://other"})
    )
    ((reason, count),) = repaired.items()
    assert reason.startswith("url: ")
    assert count == 2
    assert "secret" not in reason


def test_an_expression_that_does_not_fit_an_item_costs_that_field_or_where_it_must_the_item() -> None:
    origin = own(
        fields={"title": "not_null(name, join('', title))", "location": "join(', ', places)"},
        skip="length(no) > `20`",
    )
    good = {"id": 1, "title": ["a"], "places": ["Leeds"], "no": ""}
    body = board(good, good | {"places": "secret"}, good | {"title": 7}, good | {"no": 7})
    found = read(origin, [body])
    assert [opening.location for opening in found.openings] == ["Leeds", None]
    assert found.repaired == {"location: its JMESPath does not fit the item, and was left out": 1}
    assert found.rejected == {
        "title: its JMESPath does not fit the item": 1,
        "skip: its JMESPath does not fit the item": 1,
    }


def test_an_item_is_skipped_only_when_the_rule_is_true() -> None:
    found = read(
        own(skip="draft"), [board(*({"id": 1, "title": "a", "draft": value} for value in (True, 1, "x", None)))]
    )
    assert (len(found.openings), found.skipped) == (3, 1)


def test_items_may_be_in_several_lists() -> None:
    origin = source(
        "json", feed={"items": "departments.item.jobs.item", "fields": {"external_id": "id", "title": "title"}}
    )
    body = {"departments": [{"jobs": [{"id": 1, "title": "a"}]}, {"jobs": None}, {"jobs": [{"id": 2, "title": "b"}]}]}
    openings, _ = openings_of(json.dumps(body).encode(), origin)
    assert [opening.external_id for opening in openings] == ["1", "2"]
    assert openings_of(b'{"departments": []}', origin) == ([], {})
    with pytest.raises(FeedError, match=r"no list `departments\.item\.jobs`"):
        read(origin, [b'{"departments": null}'])


@pytest.mark.parametrize("text", ["title", "location.name", "location.name.deeper", "title.name", "nothing.at_all"])
def test_a_plain_path_is_walked_as_jmespath_would(text: str) -> None:
    walked = Fields(external_id=text, title=text).title  # type: ignore[arg-type]
    for item in (JOB, {}, [JOB], None, 7, JOB | {"location": ["name"]}):
        assert walked.find(item) == jmespath.search(text, item)


@pytest.mark.parametrize(
    "body",
    [
        b'{"jobs": [',
        b'{"jobs": []} {"jobs": []}',
        b'{"jobs": [{"id": 1,}]}',
    ],
    ids=lambda body: body[:20],
)
def test_broken_json_is_an_error(body: bytes) -> None:
    with pytest.raises(FeedError):
        read(SOURCE, [body])


@pytest.mark.parametrize("start", ['{"jobs": ', '{"jobs": [{"id": ', '{"a": '])
def test_bottomless_json_is_an_error_before_it_fills_the_memory(start: str) -> None:
    with pytest.raises(FeedError, match="nested too deep"):
        read(SOURCE, chain([start.encode()], repeat(b"[" * 1000, 100)))


def test_an_item_without_an_end_is_an_error_before_it_fills_the_memory() -> None:
    endless = chain([b'{"jobs": [{"id": "'], repeat(b"x" * 1_000_000, 100))
    with pytest.raises(FeedError, match="without a complete item"):
        read(SOURCE, endless)


def test_memory_stays_flat_however_many_items_there_are() -> None:
    reader = KINDS["greenhouse"].reader(SOURCE, SOURCE.url)
    reader.feed(b'{"jobs": [null')
    piece = b"," + json.dumps(JOB).encode()
    tracemalloc.start()
    count = 0
    for _ in range(200):
        count += len(reader.feed(piece * 50))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 10_000
    assert peak < 2_000_000


@pytest.mark.parametrize("said", [{"href": "?page=2"}, ["?page=2"], 2])
def test_a_next_page_that_is_no_text_is_an_error_and_not_the_end(said: Any) -> None:
    with pytest.raises(FeedError, match="address of its next page"):
        read(source("jsonfeed"), [json.dumps({"version": "1.1", "next_url": said, "items": []}).encode()])


def test_a_source_without_a_description_of_its_feed_fails_alone() -> None:
    for kind in ("json", "socrata"):
        with pytest.raises(FeedError):
            read(source(kind), [b"[]"])
