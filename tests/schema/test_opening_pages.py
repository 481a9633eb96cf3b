"""The pages that are remembered of a source: an unchanged one costs no comparison, and never hides a change."""

import asyncio
import random
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import AsyncConnection

from opening_signals.feeds.model import Opening
from opening_signals.store import upsert
from opening_signals.store.lock import lock_sources
from opening_signals.store.upsert import Merged
from tests.schema.openings import load, load_on, one, opening, stage

FEED = [opening(str(number), f"Baker {number}") for number in range(10)]
STORED = "select jsonb_object_agg(external_id, title) from opening_signals where closed_at is null"


def titles(openings: list[Opening]) -> dict[str, str]:
    return {each.external_id: each.title for each in openings}


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions of the pages that were not known."""
    positions: list[int] = []
    real = upsert._row

    async def row(conn: AsyncConnection[Any], query: str, params: dict[str, Any]) -> Any:
        if query == "compare_page":
            positions.append(params["position"])
        return await real(conn, query, params)

    monkeypatch.setattr(upsert, "_row", row)
    return positions


def test_only_a_page_that_is_new_is_compared(dsn: str, compared: list[int]) -> None:
    assert load(dsn, "acme", FEED) == Merged(10, 10, 0)
    assert compared == [0, 5]
    compared.clear()
    assert load(dsn, "acme", FEED) == Merged(10, 0, 0)
    assert compared == []
    changed = [*FEED[:9], opening("9", "Cook")]
    assert load(dsn, "acme", changed) == Merged(10, 0, 1)
    assert compared == [5]
    assert load(dsn, "acme", [*changed[5:], *changed[:5]]) == Merged(10, 0, 0)
    assert compared == [5]
    assert load(dsn, "acme", changed[::-1]) == Merged(10, 0, 0)
    assert compared == [5, 0, 5]
    assert load(dsn, "acme", FEED[:4]) == Merged(4, 0, 0, closed=6)
    compared.clear()
    assert load(dsn, "acme", FEED[:4]) == Merged(4, 0, 0)
    assert compared == []


def test_a_page_with_an_opening_twice_is_known_again(dsn: str, compared: list[int]) -> None:
    twice = [opening("1", "Cook"), opening("1", "Baker"), opening("2"), opening("3")]
    assert load(dsn, "acme", twice) == Merged(3, 3, 0)
    other = [*twice[:3], opening("4")]
    assert load(dsn, "acme", other) == Merged(3, 1, 0, closed=1)
    assert compared == [0, 2, 2]
    assert load(dsn, "acme", other) == Merged(3, 0, 0)
    assert compared == [0, 2, 2]


def test_a_page_that_comes_twice_in_one_feed_is_remembered_once(dsn: str, conn: psycopg.Connection[Any]) -> None:
    for merged in (Merged(2, 2, 0), Merged(2, 0, 0)):
        assert load(dsn, "acme", [*FEED[:2], *FEED[:2]]) == merged
    assert load(dsn, "acme", FEED[:2]) == Merged(2, 0, 0)
    assert one(conn, STORED) == titles(FEED[:2])


def test_a_page_is_known_only_of_its_own_source(dsn: str) -> None:
    load(dsn, "acme", FEED)
    load(dsn, "globex", FEED[:2])
    assert load(dsn, "globex", FEED) == Merged(10, 8, 0)


@pytest.mark.parametrize(
    ("by_hand", "merged"),
    [
        ("delete from opening_signals where external_id = '3'", Merged(10, 1, 0)),
        ("truncate opening_signals", Merged(10, 10, 0)),
        ("update opening_signals set content_hash = null where external_id = '3'", Merged(10, 0, 0)),
        ("update opening_signals set closed_at = now() where external_id = '3'", Merged(10, 0, 1)),
        ("update opening_signals set external_id = 'x' where external_id = '3'", Merged(10, 1, 0, closed=1)),
        ("insert into opening_signals (source, external_id) values ('acme', 'x')", Merged(10, 0, 0, closed=1)),
        (
            "update opening_signals o set title = p.title, content_hash = p.content_hash from opening_signals p"
            " where (o.external_id, p.external_id) in (('3', '4'), ('4', '3'))",
            Merged(10, 0, 2),
        ),
        ("truncate opening_pages", Merged(10, 0, 0)),
        ("delete from opening_pages where ctid = '(0,1)'", Merged(10, 0, 0)),
    ],
)
def test_what_was_changed_by_hand_is_put_right_by_the_next_load(
    dsn: str, conn: psycopg.Connection[Any], by_hand: str, merged: Merged
) -> None:
    load(dsn, "acme", FEED)
    conn.execute(by_hand.encode())
    assert load(dsn, "acme", FEED) == merged
    assert one(conn, STORED) == titles(FEED)
    assert load(dsn, "acme", FEED) == Merged(10, 0, 0)


@pytest.mark.parametrize("known", [True, False], ids=["known", "compared"])
@pytest.mark.parametrize(
    "meanwhile",
    [
        "delete from opening_signals where external_id = '3'",
        "update opening_signals set title = 'Cook', content_hash = sha256('Cook') where external_id = '3'",
    ],
)
def test_what_another_changed_between_staging_and_merge_is_put_right_by_the_next_load(
    dsn: str, conn: psycopg.Connection[Any], compared: list[int], meanwhile: str, known: bool
) -> None:
    load(dsn, "acme", FEED)
    if not known:
        conn.execute("truncate opening_pages")
    compared.clear()

    async def work() -> None:
        async with await AsyncConnection.connect(dsn, autocommit=True) as each:
            request_id = uuid4()
            await stage(each, request_id, "acme", FEED)
            conn.execute(meanwhile.encode())
            async with each.transaction():
                await lock_sources(each, ["acme"])
                await upsert.merge(each, request_id, {"acme": 2})

    asyncio.run(work())
    assert compared == ([] if known else [0, 5])
    load(dsn, "acme", FEED)
    assert one(conn, STORED) == titles(FEED)


def test_a_page_that_another_page_contradicted_is_not_taken_for_stored(
    dsn: str, conn: psycopg.Connection[Any]
) -> None:
    said, unsaid = [opening("1", "Baker"), opening("2")], [opening("1", "Cook"), opening("3")]
    for _ in range(2):
        assert load(dsn, "acme", [*said, *unsaid]).fetched == 3
        assert one(conn, STORED) == titles([*said, *unsaid])
    assert load(dsn, "acme", [*said, opening("3"), opening("4")]) == Merged(4, 1, 1)
    assert one(conn, STORED)["1"] == "Baker"


def test_what_an_unsure_source_left_open_is_closed_when_it_is_sure_again(
    dsn: str, conn: psycopg.Connection[Any], compared: list[int]
) -> None:
    load(dsn, "acme", FEED)
    conn.execute("truncate opening_pages")

    async def work() -> Merged:
        async with await AsyncConnection.connect(dsn, autocommit=True) as each, each.transaction():
            request_id = uuid4()
            pages = await stage(each, request_id, "acme", FEED[:5])
            await lock_sources(each, ["acme"])
            return await upsert.merge(each, request_id, {"acme": pages}, unsure=["acme"])

    assert asyncio.run(work()) == Merged(5, 0, 0)
    assert one(conn, STORED) == titles(FEED)
    compared.clear()
    assert load(dsn, "acme", FEED[:5]) == Merged(5, 0, 0, closed=5)
    assert compared == [0, 2]


BY_HAND = [
    "delete from opening_signals where external_id = '{}'",
    "update opening_signals set content_hash = null where external_id = '{}'",
    "update opening_signals set title = 'x', content_hash = sha256('x') where external_id = '{}'",
    "update opening_signals set closed_at = now() where external_id = '{}'",
    "update opening_signals set closed_at = null where external_id = '{}'",
    "insert into opening_signals (source, external_id) values ('acme', 'x{}') on conflict do nothing",
    "delete from opening_pages where openings <> {}",
]


def test_whatever_the_feed_and_others_do_the_open_openings_are_those_of_the_feed(
    dsn: str, conn: psycopg.Connection[Any]
) -> None:
    draw = random.Random(3)
    feed = FEED[:6]
    turns: list[Callable[[], object]] = [
        lambda: None,
        lambda: None,
        lambda: draw.shuffle(feed),
        lambda: feed.reverse(),
        lambda: feed.append(opening(str(draw.randrange(10)), draw.choice(["Cook", "Baker"]))),
        lambda: feed and feed.pop(draw.randrange(len(feed))),
        lambda: conn.execute(draw.choice(BY_HAND).format(draw.randrange(10)).encode()),
    ]

    async def work() -> None:
        async with await AsyncConnection.connect(dsn, autocommit=True) as each:
            for turn in range(100):
                draw.choice(turns)()
                merged = await load_on(each, "acme", feed)
                assert (turn, one(conn, STORED) or {}) == (turn, titles(feed))
                assert merged.fetched == len(titles(feed))

    asyncio.run(work())
