"""The views over the openings, and what the row of a source may say."""

from typing import Any

import psycopg
import pytest

OPENINGS = """
insert into opening_signals (source, external_id, title) values ('acme', '1', 'Baker'), ('acme', '2', 'Cook'),
  ('globex', '1', 'Florist');
alter table opening_signals disable trigger user;
update opening_signals set first_seen_at = now() - interval '8 days' where source = 'globex';
update opening_signals set first_seen_at = now() - interval '2 days', closed_at = now() - interval '1 day',
  last_seen_at = now() - interval '25 hours' where external_id = '2';
insert into opening_sources (name, last_seen_at) values ('acme', now());
"""


@pytest.fixture
def filled(conn: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    conn.execute(OPENINGS.encode())
    return conn


def rows(conn: psycopg.Connection[Any], text: str) -> list[Any]:
    return conn.execute(text.encode()).fetchall()


def test_openings_have_all_columns_of_the_table_and_whether_they_are_open(conn: psycopg.Connection[Any]) -> None:
    columns = "select column_name from information_schema.columns where table_name = '{}'"
    table, view = ({name for (name,) in rows(conn, columns.format(each))} for each in ("opening_signals", "openings"))
    assert view == table | {"open", "last_seen_at"}


def test_an_opening_was_last_seen_when_its_source_was_unless_it_is_closed(filled: psycopg.Connection[Any]) -> None:
    found = rows(
        filled,
        "select o.source, o.external_id, o.open, case o.last_seen_at when s.last_seen_at then 'source'"
        " when o.first_seen_at then 'first' else (o.closed_at - o.last_seen_at)::text end"
        " from openings o left join opening_sources s on s.name = o.source order by 1, 2",
    )
    assert found == [
        ("acme", "1", True, "source"),
        ("acme", "2", False, "01:00:00"),
        ("globex", "1", True, "first"),
    ]


def test_new_openings_are_open_and_of_the_last_seven_days(filled: psycopg.Connection[Any]) -> None:
    assert rows(filled, "select source, external_id from new_openings") == [("acme", "1")]
    filled.execute("update opening_signals set closed_at = null")
    assert rows(filled, "select external_id from new_openings") == [("1",), ("2",)]


def test_closed_openings_are_those_that_are_not_open(filled: psycopg.Connection[Any]) -> None:
    assert rows(filled, "select source, external_id from closed_openings") == [("acme", "2")]


@pytest.mark.parametrize(
    ("values", "constraint"),
    [("failures = -1", "failures_not_negative"), ("next_fetch_at = now()", "only_a_failing_source_waits")],
)
def test_an_impossible_state_is_refused(filled: psycopg.Connection[Any], values: str, constraint: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match=constraint):
        filled.execute(f"update opening_sources set {values}".encode())
