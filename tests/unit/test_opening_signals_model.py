"""An item becomes a storable opening or none, repairs are reported, and the hash changes exactly when what is stored
changes."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opening_signals.feeds.model import Opening
from opening_signals.feeds.sanitize import BROKEN_TEXT, canonical

FIELDS: dict[str, Any] = {
    "external_id": "4012345",
    "title": "Store Manager",
    "organization": "Acme",
    "location": "Leeds, UK",
    "url": "https://boards.example/acme/jobs/4012345",
    "posted_at": "2026-11-02T14:00:00-05:00",
}


def opening(item: Any = None, **changes: Any) -> Opening:
    return Opening.of({"id": 1} if item is None else item, **{**FIELDS, **changes})


def test_text_is_stripped_and_blank_text_is_none() -> None:
    made = opening(title="  Baker\n", organization=" ", location="", url="", posted_at="")
    assert (made.title, made.organization, made.location, made.url, made.posted_at) == (
        "Baker",
        None,
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-11-02T14:00:00-05:00", datetime(2026, 11, 2, 19, tzinfo=UTC)),
        ("2026-11-02T14:00:00Z", datetime(2026, 11, 2, 14, tzinfo=UTC)),
        ("2026-11-02T14:00:00", datetime(2026, 11, 2, 14, tzinfo=UTC)),
        ("2026-11-02", datetime(2026, 11, 2, tzinfo=UTC)),
    ],
)
def test_a_time_is_kept_in_utc(written: str, meant: datetime) -> None:
    made = opening(posted_at=written).posted_at
    assert made == meant
    assert made.tzinfo is UTC


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("external_id", None, "is missing"),
        ("external_id", " ", "is missing"),
        ("external_id", "x" * 501, "is longer than 500 characters"),
        ("external_id", "a\0b", "holds invalid characters"),
        ("external_id", "a\udc00", "holds invalid characters"),
        ("external_id", 7.5, "is neither a text nor a whole number"),
        ("title", " ", "is missing"),
        ("title", None, "is missing"),
        ("title", "\ud800", "is missing"),
        ("title", ["Baker"], "is not a text"),
    ],
)
def test_without_an_id_and_a_title_there_is_no_opening(field: str, value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: {why}$"):
        opening(**{field: value})


@pytest.mark.parametrize(
    ("field", "value", "kept", "why"),
    [
        ("title", "x" * 999 + " yz", "x" * 999, "title: was cut to 1000 characters"),
        ("title", "Ba\0k\ud800er", "Baker", BROKEN_TEXT),
        ("location", "x" * 1001, "x" * 1000, "location: was cut to 1000 characters"),
        ("location", 7, None, "location: is not a text, and was left out"),
        ("organization", "Ac\0me", "Acme", BROKEN_TEXT),
        ("organization", {"name": "Acme"}, None, "organization: is not a text, and was left out"),
        ("url", "javascript:alert(1)", None, "url: is not an http or https address, and was left out"),
        ("url", "//boards.example/1", None, "url: is not an http or https address, and was left out"),
        ("url", "https://", None, "url: is not an http or https address, and was left out"),
        ("url", "https://boards.example/a b", None, "url: is not an http or https address, and was left out"),
        (
            "url",
            "https://boards.example/" + "x" * 2000,
            None,
            "url: is longer than 2000 characters, and was left out",
        ),
        ("url", 7, None, "url: is not a text, and was left out"),
        ("url", "https://boards.example/a\0b", None, "url: holds invalid characters, and was left out"),
        ("posted_at", "yesterday", None, "posted_at: is not an ISO 8601 time, and was left out"),
        ("posted_at", 1762770000000, None, "posted_at: is not an ISO 8601 time, and was left out"),
        (
            "posted_at",
            "1900-01-01T00:00:00.000",
            None,
            "posted_at: is not in the years 1970 to 2100, and was left out",
        ),
        (
            "posted_at",
            "0001-01-01T00:00:00+05:00",
            None,
            "posted_at: is not in the years 1970 to 2100, and was left out",
        ),
        (
            "posted_at",
            "9999-12-31T23:59:59-05:00",
            None,
            "posted_at: is not in the years 1970 to 2100, and was left out",
        ),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_any_other_field_that_is_no_good_costs_only_itself(field: str, value: Any, kept: Any, why: str) -> None:
    repairs: list[str] = []
    made = Opening.of({"id": 1}, repairs, **{**FIELDS, field: value})
    assert (getattr(made, field), repairs) == (kept, [why])
    others = [name for name in Opening._fields if name not in (field, "content_hash", "payload_hash")]
    assert all(getattr(made, name) == getattr(opening(), name) for name in others)


@pytest.mark.parametrize(
    ("item", "kept", "why"),
    [
        ({"a": "x\0y"}, '{"a":"xy"}', BROKEN_TEXT),
        ({"a\0": 1}, '{"a":1}', BROKEN_TEXT),
        ({"a": ["\ud83d", "\udfff"]}, '{"a":["",""]}', BROKEN_TEXT),
        ({"a": [float("inf"), float("nan")]}, '{"a":[null,null]}', "payload: held NaN or an infinity"),
        ({"a": "x" * 1_000_001}, "{}", "payload: is too large, and was left out"),
        ({"a": json.loads("[" * 101 + "]" * 101)}, "{}", "payload: is nested too deep, and was left out"),
        ({"a": json.loads("[" * 400 + "]" * 400)}, "{}", "payload: is nested too deep, and was left out"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_an_item_is_kept_without_what_jsonb_cannot_hold(item: Any, kept: str, why: str) -> None:
    repairs: list[str] = []
    assert (Opening.of(item, repairs, **FIELDS).payload, repairs) == (kept, [why])


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"a": "x\0y"}, "NUL"),
        ({"a\0": 1}, "NUL"),
        ({"a": "\\\0"}, "NUL"),
        ({"a": "\ud83d"}, "surrogate"),
        ({"a": float("nan")}, "NaN or an infinity"),
        ({"a": float("inf")}, "NaN or an infinity"),
        ({"a": "x" * 1_000_001}, "large"),
        (json.loads("[" * 101 + "]" * 101), "deep"),
    ],
)
def test_an_item_that_jsonb_cannot_hold_is_refused(item: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        canonical(item)


def test_an_item_may_talk_about_nul_and_have_many_parts() -> None:
    assert canonical({"a": "\\u0000"}) == r'{"a":"\\u0000"}'
    assert canonical([[] for _ in range(500)])


def test_the_order_of_keys_is_no_change() -> None:
    assert (
        opening({"a": 1, "b": {"c": 2, "d": 3}}).content_hash == opening({"b": {"d": 3, "c": 2}, "a": 1}).content_hash
    )


def test_the_same_moment_in_another_zone_is_no_change() -> None:
    later = datetime(2026, 11, 2, 19, tzinfo=UTC).astimezone(timezone(timedelta(hours=3)))
    assert opening(posted_at=later.isoformat()).content_hash == opening().content_hash


@pytest.mark.parametrize("field", ["title", "organization", "location", "url", "posted_at", "department", "remote"])
def test_a_change_of_any_field_changes_the_hash(field: str) -> None:
    other = {"url": "https://other.example/", "posted_at": "2026-11-03", "remote": False}.get(field, "other")
    assert opening(**{field: other}).content_hash != opening().content_hash


def test_a_value_that_moves_to_another_field_changes_the_hash() -> None:
    assert (
        opening(organization="a", location=None).content_hash != opening(organization=None, location="a").content_hash
    )


def test_a_change_of_the_item_alone_changes_only_the_hash_of_the_payload() -> None:
    before, after = opening({"id": 1}), opening({"id": 1, "updated_at": "2026-11-03"})
    assert before.content_hash == after.content_hash
    assert before.payload_hash != after.payload_hash


@pytest.mark.parametrize(
    ("written", "read"),
    [(True, True), (False, False), ("Remote", True), ("on-site", False), ("Hybrid", False), ("unspecified", None)],
)
def test_whether_an_opening_is_remote_is_read_from_a_truth_value_or_a_word(written: Any, read: bool | None) -> None:
    repairs: list[str] = []
    assert (Opening.of({}, repairs, **FIELDS, remote=written).remote, repairs) == (read, [])
    assert Opening.of({}, repairs, **FIELDS, remote=7).remote is None
    assert repairs == ["remote: is neither true nor false, and was left out"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=30,
)


@given(json_values)
def test_every_item_is_storable_json_or_a_value_error(item: Any) -> None:
    try:
        text = canonical(item)
    except ValueError:
        return
    assert json.loads(text.encode()) == item
    assert r"\u0000" not in text.replace(r"\\", "")
