"""Durations are sent to the database as texts that every version of PostgreSQL reads, and reads correctly."""

import re
from datetime import timedelta

import psycopg
import pytest

from cronlease.db.queries import interval
from tests.schema.calls import one

# What PostgreSQL 14 takes for one number of an interval.
MOST = 2**31 - 1


@pytest.mark.parametrize(
    "length",
    [
        timedelta(0),
        timedelta(microseconds=1),
        timedelta(seconds=1.5),
        timedelta(minutes=40),
        timedelta(hours=6, microseconds=999_999),
        timedelta(days=400, seconds=7),
        -timedelta(seconds=2.25),
    ],
)
def test_a_duration_is_read_as_it_was_meant(conn: psycopg.Connection, length: timedelta) -> None:
    assert one(conn, "select %s::text::interval", [interval(length)]) == length
    assert all(int(number) <= MOST for number in re.findall(r"\d+", interval(length)))
