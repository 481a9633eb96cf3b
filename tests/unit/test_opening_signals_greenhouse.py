"""A board becomes openings; a bad item costs itself, and what is no board is an error, never an empty board."""

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from opening_signals.model import FeedError, Opening, Source
from opening_signals.sources import KINDS
from opening_signals.sources.kind import PAGE

JOB: dict[str, Any] = {
    "id": 4012345,
    "internal_job_id": 3098765,
    "title": "Store Manager",
    "updated_at": "2026-11-10T09:12:44-05:00",
    "first_published": "2026-11-02T14:00:00-05:00",
    "requisition_id": "R-118",
    "location": {"name": "Leeds, UK"},
    "absolute_url": "https://boards.greenhouse.io/acme/jobs/4012345",
    "metadata": None,
}
SOURCE = Source(name="acme", kind="greenhouse", url="https://boards.example/")


def read(body: bytes, source: Source = SOURCE) -> tuple[list[Opening], Counter[str]]:
    rejected: Counter[str] = Counter()
    pages = list(KINDS["greenhouse"].pages(source, body, rejected))
    return [opening for page in pages for opening in page], rejected


def board(*jobs: Any) -> bytes:
    return json.dumps({"jobs": jobs, "meta": {"total": len(jobs)}}).encode()


def test_a_job_becomes_an_opening() -> None:
    (opening,), rejected = read(board(JOB))
    assert not rejected
    assert opening.external_id == "4012345"
    assert opening.title == "Store Manager"
    assert opening.location == "Leeds, UK"
    assert opening.url == "https://boards.greenhouse.io/acme/jobs/4012345"
    assert opening.posted_at == datetime(2026, 11, 2, 19, tzinfo=UTC)
    assert json.loads(opening.payload) == JOB


def test_the_organization_is_the_sources_own_before_the_feeds() -> None:
    job = JOB | {"company_name": "Acme Ltd"}
    (by_feed,), _ = read(board(job))
    (by_source,), _ = read(board(job), SOURCE.model_copy(update={"organization": "Acme"}))
    assert (by_feed.organization, by_source.organization) == ("Acme Ltd", "Acme")


def test_a_job_needs_no_more_than_an_id_and_a_title() -> None:
    (opening,), _ = read(board({"id": "x-1", "title": "Baker"}))
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
    JOB | {"title": "Ba\0ker"},
    JOB | {"title": "Ba\ud800ker"},
    JOB | {"metadata": float("nan")},
    JOB | {"metadata": float("-inf")},
    JOB | {"location": "Leeds"},
    JOB | {"location": {"name": 7}},
    JOB | {"absolute_url": 7},
    JOB | {"absolute_url": "file:///etc/passwd"},
    JOB | {"first_published": "0000-00-00"},
    JOB | {"first_published": "9999-12-31T23:59:59-12:00"},
    JOB | {"first_published": 1762770000},
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_bad_item_costs_only_itself(bad: Any) -> None:
    openings, rejected = read(board(JOB | {"id": 1}, bad, JOB | {"id": 2}))
    assert [opening.external_id for opening in openings] == ["1", "2"]
    assert rejected.total() == 1


def test_bytes_that_are_not_utf8_and_endless_numbers_cost_only_their_item() -> None:
    body = board(JOB | {"id": 1}, JOB | {"title": "Caf?"}, JOB | {"metadata": 123456}, JOB | {"id": 2})
    openings, rejected = read(body.replace(b"Caf?", b"Caf\xe9").replace(b"123456", b"9" * 5000))
    assert [opening.external_id for opening in openings] == ["1", "2"]
    assert rejected.total() == 2


def test_a_reason_names_the_field_and_never_the_value() -> None:
    _, rejected = read(board(JOB, JOB | {"absolute_url": "ftp://secret"}, JOB | {"absolute_url": "ftp://other"}))
    ((reason, count),) = rejected.items()
    assert reason.startswith("url: ")
    assert count == 2
    assert "secret" not in reason


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>We have moved</html>",
        b"null",
        b"[]",
        b'"jobs"',
        b'{"status": 404, "error": "Job not found"}',
        b'{"jobs": null}',
        b'{"jobs": {"1": {}}}',
        b'{"jobs": [',
        b'{"jobs": ' + b"[" * 200_000,
        b"\xff\xfe{}",
    ],
    ids=lambda body: body[:20],
)
def test_what_is_no_board_is_an_error(body: bytes) -> None:
    with pytest.raises(FeedError):
        read(body)


def test_a_board_without_jobs_is_a_board() -> None:
    assert read(board()) == ([], Counter())


def test_a_board_of_which_nothing_is_usable_is_an_error_that_says_why() -> None:
    with pytest.raises(FeedError, match=r"none of its 2 items is usable: title: "):
        read(board(JOB | {"title": None}, JOB | {"title": 7}))


def test_a_large_board_comes_in_pages() -> None:
    rejected: Counter[str] = Counter()
    body = board(*(JOB | {"id": number} for number in range(PAGE + 1)))
    assert [len(page) for page in KINDS["greenhouse"].pages(SOURCE, body, rejected)] == [PAGE, 1]
