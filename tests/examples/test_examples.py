"""Every example does what it says, on a real PostgreSQL."""

import importlib
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.acceptance.conftest import FUNCTIONS, clean_environment, running
from tests.acceptance.lambda_runtime import on_lambda
from tests.require import need, need_package

EXAMPLES = Path(__file__).parent


@pytest.fixture
def database(cronlease_database: str) -> str:
    return cronlease_database


def example(name: str) -> Any:
    """The module, executed in this test: each test begins without what others declared."""
    sys.modules.pop(f"tests.examples.{name}", None)
    return importlib.import_module(f"tests.examples.{name}")


def query(database: str, text: str) -> list[Any]:
    with psycopg.connect(database, autocommit=True) as conn:
        cursor = conn.execute(text.encode())
        return cursor.fetchall() if cursor.description else []


def test_a_plain_function_stores_its_rates_once(cronlease_client: Any, database: str) -> None:
    client = cronlease_client(example("plain_function").store_rates)
    assert client.hit()["fetched"] == 2
    assert client.hit()["reason"] == "not_due"
    assert query(database, "select currency from rates order by 1") == [("CHF",), ("USD",)]


def test_the_orm_expires_what_was_old_on_that_night(cronlease_client: Any, database: str) -> None:
    query(database, "insert into orders values (1, 'open', '2026-03-01Z'), (2, 'paid', '2026-03-01Z')")
    query(database, "insert into orders values (3, 'open', '2026-03-22 01:00Z')")
    client = cronlease_client(example("with_sqlalchemy").expire_orders)
    # Three o'clock in Berlin, on the night when the clocks go forward at two.
    assert client.hit(slot=datetime(2026, 3, 29, 1, tzinfo=UTC))["updated"] == 1
    assert query(database, "select id from orders where state = 'expired'") == [(1,)]
    assert client.hit(force=True)["updated"] is None


def test_a_function_in_fastapi_runs_beside_its_routes(database: str) -> None:
    need_package("fastapi")
    query(database, "insert into sessions values (1, now() - interval '1 s'), (2, now() + interval '1 day')")
    words = [sys.executable, "-m", "uvicorn", "in_fastapi:app", "--port", "PORT"]
    with running(words, database, alive="/hello", PYTHONPATH=f"{EXAMPLES}:{FUNCTIONS}") as served:
        assert served.hit("/cron/delete_expired_sessions").json()["closed"] == 1
        assert served.hit("/cron/delete_expired_sessions").json()["reason"] == "not_due"
    assert query(database, "select id from sessions") == [(2,)]


def test_a_lambda_counts_an_hour_once_however_often_it_is_delivered(database: str, tmp_path: Path) -> None:
    for time in ("11:59:59", "12:00", "12:30", "13:00"):
        query(database, f"insert into visits values ('/', '2026-10-08 {time}Z')")
    until = "2026-10-08T13:00:00Z"
    event: dict[str, Any] = {"schedule_arn": "arn:aws:scheduler:us-east-1:123456789012:schedule/default/visits"}
    event |= {"scheduled_time": until, "args": {"until": until}}
    with on_lambda(database, "tests.examples.lambda_handler.handler", tmp_path) as runtime:
        assert runtime.invoke(event)[1]["inserted"] == 1
        assert runtime.invoke(event)[1]["reason"] == "duplicate"
    assert query(database, "select page, visits from visits_per_hour") == [("/", 2)]


def test_of_two_crontabs_one_imports_the_prices(database: str, tmp_path: Path) -> None:
    need("psql")
    prices = tmp_path / "prices.csv"
    prices.write_text("bread,3.20\nmilk,1.10\n")
    words = [sys.executable, "-m", "cronlease", "exec", "import-prices", "--lease", "2m", "--every", "5m"]
    words += ["--", str(EXAMPLES / "import_prices.sh"), str(prices)]
    both = [subprocess.Popen(words, env=clean_environment(DATABASE_URL=database)) for _ in range(2)]
    assert [process.wait(30) for process in both] == [0, 0]
    assert query(database, "select name from prices order by name") == [("bread",), ("milk",)]
    assert query(database, "select status from refresh_runs") == [("success",)]
