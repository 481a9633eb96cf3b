"""Whose tables are made where: by a first hit, and by `cronlease migrate` beside a main.py."""

import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import FUNCTIONS, JOBS, Serve, free_port
from tests.acceptance.shell import Shell
from tests.integration.conftest import Room

MAIN = FUNCTIONS / "main.py"
OF_THE_JOB = "select relname from pg_class where relnamespace = 'public'::regnamespace and relname ~ 'opening'"


def test_a_first_hit_makes_what_its_function_needs_and_no_more(empty_dsn: str, tmp_path: Path, serve: Serve) -> None:
    room = Room(empty_dsn)
    assert serve(empty_dsn, target="tell").hit().json()["status"] == "success"
    assert room.query(OF_THE_JOB) == []

    (tmp_path / "sources.toml").write_text("")
    job = serve(
        empty_dsn,
        target="refresh_opening_signals",
        source=MAIN,
        CRONLEASE_SOURCES=str(tmp_path / "sources.toml"),
    )
    job.hit()
    assert ("opening_signals",) in room.query(OF_THE_JOB)
    assert room.query("select run_count from refresh_schedule where function_name = 'tell'") == [(1,)]


@pytest.mark.thorough
def test_migrate_makes_the_tables_of_what_the_file_declares(empty_dsn: str, tmp_path: Path) -> None:
    cronlease, room = Shell(empty_dsn, tmp_path), Room(empty_dsn)
    status, out, err = cronlease("migrate")
    assert (status, err) == (0, ""), out
    assert "applied 0001_refresh_schedule" in out
    assert room.query(OF_THE_JOB) == []
    assert cronlease("migrate", "--check")[0] == 0

    status, out, _ = cronlease("migrate", "--check", "--source", str(MAIN))
    assert status == 1
    assert "migration 0003_opening_signals is missing" in out
    assert "applied 0003_opening_signals" in cronlease("migrate", "--source", str(MAIN))[1]
    assert ("opening_signals",) in room.query(OF_THE_JOB)


@pytest.mark.thorough
def test_a_function_of_ones_own_is_emulated_without_anything_of_the_jobs(empty_dsn: str, tmp_path: Path) -> None:
    cronlease, room = Shell(empty_dsn, tmp_path), Room(empty_dsn)
    words = ["--source", str(JOBS), "--target", "tell", "--hit-every", "0.5s", "--for", "4s", "--json"]
    status, out, err = cronlease("emulate", *words, "--port", str(free_port()))
    assert status == 0, err
    verdict = json.loads(out.splitlines()[-1])["verdict"]
    assert verdict["violations"] == []
    assert sum(verdict["runs"].values()) > 0
    assert room.query(OF_THE_JOB) == []
