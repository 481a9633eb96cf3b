"""The pytest plugin as a user has it: a project of their own with a main.py and a test of it."""

import subprocess
import sys
from pathlib import Path

from tests.acceptance.conftest import clean_environment

MAIN = """
from cronlease import Run, scheduled

@scheduled(every="10m..15m")
async def refresh_prices(run: Run) -> None:
    async with run.commit() as conn:
        await conn.execute("create table if not exists prices (id int)")
        await conn.execute("insert into prices values (1)")
        run.report(fetched=len(run.args), inserted=1)
"""

TESTS = """
from main import refresh_prices


def test_a_second_hit_is_not_due(cronlease_client, due_now):
    client = cronlease_client(refresh_prices)
    assert client.hit()["status"] == "success"
    assert client.hit()["reason"] == "not_due"
    due_now("refresh_prices")
    assert client.hit(args={"a": 1}, headers={"X-CloudScheduler": "true"})["fetched"] == 1


def test_each_test_has_a_database_of_its_own(cronlease_client, cronlease_database):
    import psycopg

    client = cronlease_client(refresh_prices)
    answer = client.hit(force=True)
    assert (answer["http_status"], answer["status"]) == (200, "success")
    with psycopg.connect(cronlease_database) as conn:
        assert conn.execute("select count(*) from prices").fetchone() == (1,)
        assert conn.execute("select count(*) from refresh_runs").fetchone() == (1,)
    assert client.hit(path="/nowhere")["http_status"] == 404
"""

UNUSED = """
import sys


def test_nothing_is_imported_unless_used():
    assert "cronlease.testing" in sys.modules
    assert not {"psycopg", "cronlease.handler", "functions_framework", "starlette"} & set(sys.modules)
"""


def run_tests(folder: Path, text: str) -> str:
    (folder / "main.py").write_text(MAIN)
    (folder / "test_main.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=folder, env=clean_environment(), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_user_tests_their_function_on_a_real_database(tmp_path: Path) -> None:
    assert "2 passed" in run_tests(tmp_path, TESTS)


def test_a_run_that_does_not_use_the_plugin_pays_nothing(tmp_path: Path) -> None:
    assert "1 passed" in run_tests(tmp_path, UNUSED)
