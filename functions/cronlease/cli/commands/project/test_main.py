"""On a real PostgreSQL: each test has a database of its own, with schema.sql in it (pytest.ini)."""

import psycopg
from main import refresh_prices


def test_a_hit_stores_the_prices_and_a_second_one_is_not_due(cronlease_client, cronlease_database):
    client = cronlease_client(refresh_prices)
    assert client.hit()["status"] == "success"
    assert client.hit()["reason"] == "not_due"
    with psycopg.connect(cronlease_database) as conn:
        assert conn.execute("select name from prices order by name").fetchall() == [("bread",), ("milk",)]


def test_the_next_run_updates_them(cronlease_client, due_now):
    client = cronlease_client(refresh_prices)
    assert client.hit()["fetched"] == 2
    due_now("refresh_prices")
    assert client.hit()["status"] == "success"
