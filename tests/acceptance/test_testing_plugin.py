"""The pytest plugin as a user has it: a project of their own with a main.py and a test of it."""

import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cronlease.testing import _given
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

WINDOWS = """
from datetime import datetime, timedelta, timezone

from cronlease import Run, scheduled

seen = []


@scheduled(cron="0 9 * * *", time_zone="Europe/Berlin")
def report(run: Run) -> None:
    seen.append((run.slot, run.window, run.attempt, run.missed))


def test_a_hit_can_name_its_slot(cronlease_client):
    client = cronlease_client(report)
    first = datetime(2026, 3, 29, 7, tzinfo=timezone.utc)
    for slot in (first, first + timedelta(days=1)):
        assert client.hit(slot=slot)["slot"] == slot.isoformat()
    assert seen == [(first, (None, first), 1, 0), (slot, (first, slot), 1, 0)]
"""

TOGETHER = """
from concurrent.futures import ThreadPoolExecutor

import psycopg
from main import refresh_prices


def test_of_twenty_hits_one_runs(cronlease_client, cronlease_database):
    client = cronlease_client(refresh_prices)
    with ThreadPoolExecutor(20) as threads:
        answers = [hit.result() for hit in [threads.submit(client.hit) for _ in range(20)]]
    assert [answer.get("status") for answer in answers].count("success") == 1
    assert {answer["reason"] for answer in answers} <= {None, "locked", "not_due"}
    # A second client of the same function shares its connections.
    assert cronlease_client(refresh_prices).hit()["reason"] == "not_due"
    with psycopg.connect(cronlease_database) as conn:
        assert conn.execute("select count(*) from prices").fetchone() == (1,)
"""

SETUP = """
import psycopg


def test_the_table_is_there_and_empty(cronlease_database):
    with psycopg.connect(cronlease_database) as conn:
        assert conn.execute("select count(*) from mine").fetchone() == (0,)
        conn.execute("insert into mine values (1)")


def test_and_empty_again(cronlease_database):
    test_the_table_is_there_and_empty(cronlease_database)
"""

# Each in a file of its own, under a fixture of its own.
SETUPS = {
    "path": "Path(__file__).with_name('my.sql')",
    "text": "'create table mine (id int)'",
    "call": "by_hand",
    "wrong": "'select 1;\\n\\ncreate table mine (id integre)'",
}

FIXTURE = """
from pathlib import Path

import psycopg
import pytest


@pytest.fixture(scope="module")
def cronlease_setup():
    return {}


def by_hand(url):
    with psycopg.connect(url) as conn:
        conn.execute("create table mine (id int)")

"""

UNUSED = """
import sys


def test_nothing_is_imported_unless_used():
    assert "cronlease.testing" in sys.modules
    assert not {"psycopg", "cronlease.triggers.http", "functions_framework", "starlette"} & set(sys.modules)
"""


def run_tests(folder: Path, *names: str, **environment: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), *names]
    ran = subprocess.run(command, cwd=folder, env=clean_environment(**environment), capture_output=True, text=True)
    assert "Traceback" not in ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "main.py").write_text(MAIN)
    (tmp_path / "my.sql").write_text("create table mine (id int);")
    files = {"main": TESTS, "together": TOGETHER, "windows": WINDOWS, "unused": UNUSED, "ini": SETUP}
    for name, text in files.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    for name, given in SETUPS.items():
        (tmp_path / f"test_{name}.py").write_text(FIXTURE.format(given) + SETUP)
    (tmp_path / "pytest.ini").write_text("[pytest]\ncronlease_setup = my.sql\n")
    return tmp_path


def test_a_user_tests_their_function_and_the_promise_itself_on_a_real_database(project: Path) -> None:
    said = run_tests(project, "test_main.py", "test_together.py", "test_windows.py")
    assert "4 passed" in said, said


@pytest.mark.thorough
def test_the_plugin_works_in_a_schema_of_ones_own(project: Path, empty_dsn: str) -> None:
    test = (project / "test_main.py").read_text().replace("from refresh_runs", "from tenant_a.refresh_runs")
    (project / "test_main.py").write_text(test)
    said = run_tests(project, "test_main.py", CRONLEASE_SCHEMA="tenant_a", CRONLEASE_TEST_DATABASE_URL=empty_dsn)
    assert "2 passed" in said, said


@pytest.mark.thorough
def test_a_run_that_does_not_use_the_plugin_pays_nothing(project: Path) -> None:
    assert "1 passed" in run_tests(project, "test_unused.py")


@pytest.mark.thorough
def test_a_users_own_schema_is_in_every_database(project: Path, empty_dsn: str) -> None:
    said = run_tests(project, "--ignore=test_unused.py", CRONLEASE_TEST_DATABASE_URL=empty_dsn)
    # The ini file names one for all, and three modules have a fixture of their own.
    assert "12 passed, 2 errors" in said, said
    assert '\ncronlease_setup, line 3: type "integre" does not exist\n' in said


@pytest.mark.thorough
def test_a_role_that_may_not_create_databases_is_one_sentence(project: Path, empty_dsn: str) -> None:
    poor = f"poor_{uuid4().hex[:8]}"
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(f"create role {poor} login password 'x'".encode())
        try:
            url = make_conninfo(empty_dsn, user=poor, password="x")
            said = run_tests(project, "test_ini.py", CRONLEASE_TEST_DATABASE_URL=url)
        finally:
            conn.execute(f"drop role {poor}".encode())
    assert f'\nthe role "{poor}" of CRONLEASE_TEST_DATABASE_URL may not create databases, and each test needs' in said
    assert f'run `alter role "{poor}" createdb` as a superuser, or unset' in said


def test_an_address_that_cannot_be_used_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for url, sentence in (
        ("postgresql+psycopg://me:opensesame@127.0.0.1/db", "_URL names a driver in its scheme, .* postgresql://"),
        ("postgresql://me:opensesame@127.0.0.1:1/db", "check CRONLEASE_TEST_DATABASE_URL and that the server is up"),
    ):
        monkeypatch.setenv("CRONLEASE_TEST_DATABASE_URL", url)
        with pytest.raises(pytest.fail.Exception, match=sentence) as told:
            _given()
        assert "opensesame" not in str(told.value)
