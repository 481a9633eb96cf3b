"""What counts as a change of an opening is what is shown, and each is kept with what the field said before."""

import asyncio
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from cronlease.db.migration.migrate import migrate
from opening_signals.feeds.model import Opening
from opening_signals.store.upsert import Merged, prune_changes
from tests.schema.openings import load, one, opening

DUMP = Path(__file__).with_name("version_0_1.sql").read_text("utf-8")
CHANGES = "select coalesce(array_agg(array[field, old_value, new_value] order by field), '{}') from opening_changes"


def touched(number: int, **fields: Any) -> Opening:
    """As a board touches it: only the item has changed, unless fields say more."""
    shown = opening(str(number))._asdict() | {"posted_at": "2026-11-02"} | fields
    for name in ("payload", "content_hash", "payload_hash"):
        del shown[name]
    return Opening.of({"id": number, "title": "Baker", "updated_at": "2026-11-17"}, **shown)


def test_a_touched_item_is_unchanged_and_its_payload_is_up_to_date(dsn: str, conn: psycopg.Connection[Any]) -> None:
    load(dsn, "acme", [opening(str(number)) for number in range(4)])
    bulk = [touched(number) for number in range(4)]
    assert load(dsn, "acme", bulk) == Merged(fetched=4, inserted=0, updated=0)
    assert one(conn, "select count(*) from opening_signals where changed_at is null and payload ? 'updated_at'") == 4
    assert one(conn, CHANGES) == []
    assert load(dsn, "acme", bulk) == Merged(fetched=4, inserted=0, updated=0)


def test_each_field_that_changed_is_kept_with_what_it_said_before(dsn: str, conn: psycopg.Connection[Any]) -> None:
    load(dsn, "acme", [opening("1"), opening("2")])
    new = {"title": "Cook", "location": None, "posted_at": "2026-11-03", "department": "Kitchen", "remote": True}
    assert load(dsn, "acme", [touched(1, **new), opening("2")]) == Merged(fetched=2, inserted=0, updated=1)
    assert one(conn, CHANGES) == [
        ["department", None, "Kitchen"],
        ["location", "Leeds", None],
        ["posted_at", "2026-11-02T00:00:00Z", "2026-11-03T00:00:00Z"],
        ["remote", None, "true"],
        ["title", "Baker", "Cook"],
    ]
    when = "select bool_and(c.changed_at = o.changed_at) from opening_changes c join openings o using (external_id)"
    assert one(conn, when)


def test_an_opening_that_returns_touched_has_a_changed_at_and_no_field_that_changed(
    dsn: str, conn: psycopg.Connection[Any]
) -> None:
    load(dsn, "acme", [opening("1"), opening("2")])
    load(dsn, "acme", [opening("2")])
    assert load(dsn, "acme", [touched(1), opening("2")]) == Merged(fetched=2, inserted=0, updated=1)
    assert one(
        conn, "select closed_at is null and changed_at is not null from opening_signals where external_id = '1'"
    )
    assert one(conn, CHANGES) == []


@pytest.mark.parametrize("hashed", ["of version 0.1", "older"])
def test_a_row_of_an_earlier_version_is_filled_in_silently_unless_it_says_something_else(
    dsn: str, conn: psycopg.Connection[Any], hashed: str
) -> None:
    mine = [touched(number, department="Kitchen", remote=False) for number in (1, 2)]
    for each in mine:
        old_hash = sha256(f"{each.title}\0Acme\0Leeds\0...".encode()).digest() if hashed == "of version 0.1" else None
        title = each.title if each.external_id == "1" else "Apprentice"
        conn.execute(
            "insert into opening_signals (source, external_id, title, url, content_hash)"
            " values ('acme', %s, %s, %s, %s)",
            [each.external_id, title, each.url, old_hash],
        )
    assert load(dsn, "acme", mine) == Merged(fetched=2, inserted=0, updated=1)
    assert one(conn, CHANGES) == [["title", "Apprentice", "Baker"]]
    rows = (
        "select array_agg((external_id, changed_at is null, department, organization)::text order by 1) from openings"
    )
    assert one(conn, rows) == ["(1,t,Kitchen,Acme)", "(2,f,Kitchen,Acme)"]
    assert load(dsn, "acme", mine) == Merged(fetched=2, inserted=0, updated=0)


def test_the_first_run_after_an_upgrade_from_version_0_1_changes_nothing(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(DUMP)
    migrate(empty_dsn)
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        columns = (
            "select array_agg((external_id, title, url, first_seen_at, changed_at)::text order by 1) from openings"
        )
        before = one(conn, columns)
        openings = [
            Opening.of({"a": 2}, external_id="1", title="Engineer", url="https://example.com/1", department="Works"),
            Opening.of({}, external_id="2", title="Cook", organization="Acme", remote=True),
        ]
        for _ in range(2):
            assert load(empty_dsn, "acme", openings) == Merged(fetched=2, inserted=0, updated=0)
        assert one(conn, columns) == before
        assert one(conn, "select array_agg(department order by external_id) from openings") == ["Works", None]
        assert one(conn, CHANGES) == []


def test_changes_are_kept_for_as_long_as_they_are_meant_to_be(dsn: str, conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "insert into opening_changes (changed_at, source, external_id, field)"
        " select now() - interval '1 day' * age, 'acme', age::text, 'title' from unnest(array[0, 29, 31]) age"
    )

    async def prune() -> None:
        async with await AsyncConnection.connect(dsn, autocommit=True) as each:
            await prune_changes(each, timedelta(days=30))

    asyncio.run(prune())
    assert one(conn, "select array_agg(external_id order by 1) from opening_changes") == ["0", "29"]
