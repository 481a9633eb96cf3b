"""The samples of the guides, run as they are written there."""

import json
import subprocess
from pathlib import Path

import psycopg

from tests.acceptance.conftest import Serve
from tests.acceptance.test_guides import JOBS, README, blocks, spans
from tests.acceptance.test_testing_plugin import run_tests
from tests.acceptance.test_typing import project as project
from tests.require import need

SCHEMA = """
create table prices (name text primary key, price numeric, shop text, seen_at timestamptz);
create table totals (shop text, total numeric);
insert into prices (name, price, shop) values ('milk', 1, 'here'), ('tea', 2, 'here');
"""

TESTS = """

def stored(database: str, query: str) -> object:
    import psycopg

    with psycopg.connect(database) as conn:
        return conn.execute(query.encode()).fetchall()


def test_the_plain_function(cronlease_client, cronlease_database):
    from main import refresh_totals

    assert cronlease_client(refresh_totals).hit()["inserted"] == 1
    assert stored(cronlease_database, "select shop, total::int from totals") == [("here", 3)]


def test_the_session(cronlease_client, cronlease_database):
    from main import add_bread

    assert cronlease_client(add_bread).hit()["status"] == "success"
    assert stored(cronlease_database, "select price::int from prices where name = 'bread'") == [(3,)]


def test_the_action(cronlease_client, cronlease_database):
    from main import order_report

    assert cronlease_client(order_report).hit()["status"] == "success"
    rows = stored(cronlease_database, "select action, args from refresh_schedule where function_name = 'report 17'")
    assert rows == [("send_report", {"to": "ops"})]
"""

SLOW = """
import asyncio

from cronlease import Run, scheduled


@scheduled
async def slow(run: Run) -> None:
    await asyncio.sleep(2)
"""


def test_the_jobs_of_the_guides_and_their_test_run(project: Path, empty_dsn: str) -> None:
    (project / "schema.sql").write_text(SCHEMA)
    (project / "pytest.ini").write_text("[pytest]\ncronlease_setup = schema.sql\n")
    (project / "test_main.py").write_text((project / "test_main.py").read_text() + TESTS)
    said = run_tests(project, CRONLEASE_TEST_DATABASE_URL=empty_dsn)
    assert "4 passed" in said, said


def test_of_the_two_curls_of_the_readme_one_runs_and_one_is_locked(tmp_path: Path, serve: Serve, dsn: str) -> None:
    (sample,) = [block for block in blocks(README, "") if "curl" in block]
    line, *shown = sample.splitlines()
    (tmp_path / "main.py").write_text(SLOW)
    served = serve(dsn, target="slow", source=tmp_path / "main.py")
    script = line.removeprefix("$ ").replace("http://127.0.0.1:8080", served.url).replace("curl", need("curl"))
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=40, check=True)
    ran, locked = sorted(map(json.loads, done.stdout.splitlines()), key=lambda answer: answer["skipped"])
    shown_ran, shown_locked = sorted(map(json.loads, shown), key=lambda answer: answer["skipped"])
    assert (list(ran), ran["status"]) == (list(shown_ran), shown_ran["status"])
    # Not known while the winner is still claiming.
    assert set(shown_locked) - set(locked) <= {"locked_until"}
    assert locked["reason"] == shown_locked["reason"] == "locked"


def test_the_schedule_that_the_guide_makes_in_sql_can_be_made(dsn: str) -> None:
    (statement,) = [span for span in spans(JOBS) if span.startswith("select schedule_action(")]
    with psycopg.connect(dsn) as conn:
        conn.execute(statement.encode())
        assert conn.execute("select function_name, action, once from refresh_schedule").fetchall() == [
            ("report 17", "send_report", True)
        ]
