"""Whose tables are made where: by a first hit, and by `cronlease migrate` beside a main.py."""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.conftest import FUNCTIONS, JOBS, Serve, free_port
from tests.acceptance.shell import Shell
from tests.faults.profile import one_in
from tests.integration.conftest import Room

MAIN = FUNCTIONS / "main.py"
OF_THE_JOB = "select relname from pg_class where relnamespace = 'public'::regnamespace and relname ~ 'opening'"


@pytest.mark.thorough
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
def test_without_a_source_no_table_of_a_job_is_made_or_missed(
    empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cronlease, room = Shell(empty_dsn, tmp_path), Room(empty_dsn)
    del cronlease.environment["FUNCTION_SOURCE"]
    with cronlease.start("migrate") as process:
        assert process.communicate(timeout=50)[1].startswith("source: none, there is no ./main.py here")
    assert room.query(OF_THE_JOB) == []
    assert cronlease.says_quickly("migrate", "--check") == "The schema is up to date.\n"
    findings = json.loads(cronlease.quickly("doctor", "--json")[1])["findings"]
    assert [each for each in findings if each["check"] == "schema" and each["level"] != "ok"] == []
    assert "refresh_opening_signals is not declared for it" in cronlease.quickly("signals")[2]

    cronlease.says("migrate", "--source", str(MAIN))
    room.query("drop view openings")
    assert "openings is missing" in cronlease.quickly("migrate", "--check")[1], "what is there is kept up"


@pytest.mark.parametrize("verb", one_in(3, ["trigger", "run-due", "worker", "serve", "emulate --once"]))
def test_a_verb_that_runs_functions_does_not_run_the_shipped_job_by_accident(
    empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(tmp_path)
    cronlease, room = Shell(empty_dsn, tmp_path), Room(empty_dsn)
    del cronlease.environment["FUNCTION_SOURCE"]
    cronlease.says_quickly("migrate")
    port = ["--port", str(free_port())] if verb in ("serve", "emulate --once") else []
    status, out, err = cronlease(*verb.split(), *port)
    assert (status, out) == (2, ""), err
    assert "this database has no tables of refresh_opening_signals, the shipped job: pass --source" in err
    assert room.query(OF_THE_JOB) == []
    assert room.query("select count(*) from refresh_schedule") == [(0,)]


def test_in_a_clone_the_shipped_job_is_meant(empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "main.py").write_bytes(MAIN.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert "applied 0003_opening_signals" in Shell(empty_dsn, tmp_path).says_quickly("migrate")


def test_a_main_py_that_cannot_be_imported_leaves_it_open_whether_all_is_there(
    empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.py").write_text("import cronlease\nimport nowhere_to_be_found\n")
    migrate = partial(Shell(empty_dsn, tmp_path).quickly, "migrate")
    status, out, err = migrate()
    assert (status, "applied 0001_refresh_schedule\n" in out, "up to date" in out) == (1, True, False)
    assert (err.count("\n"), "cannot be imported" in err, "only our own tables" in err) == (1, True, True)
    assert migrate("--check")[:2] == (1, "")
    status, out, _ = migrate("--check", "--json")
    assert (status, json.loads(out)["up_to_date"]) == (1, False)


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
