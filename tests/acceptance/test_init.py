"""`cronlease init`: the project that it makes works as it is, by its own commands, and nothing is overwritten."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from cronlease.cli.main import main
from tests.acceptance.conftest import Serve, clean_environment
from tests.acceptance.shell import Shell

FILES = {
    *("main.py", "schema.sql", "test_main.py", "pytest.ini"),
    *("requirements.txt", "jobs.json", "README.md", ".gitignore"),
}


def init(*words: str | Path) -> tuple[int, str]:
    ended = CliRunner().invoke(main, ["init", *map(str, words)])
    return ended.exit_code, ended.output


def cronlease(folder: Path, *words: str, **environment: str) -> str:
    """The command in that folder, as a process."""
    ended = subprocess.run(
        [sys.executable, "-m", "cronlease.cli.main", *words],
        cwd=folder,
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "new" / "prices"
    status, said = init(folder)
    assert (status, said.count("wrote ")) == (0, len(FILES)), said
    assert {path.name for path in folder.iterdir()} == FILES
    return folder


def prices(dsn: str) -> list[tuple[str]]:
    with psycopg.connect(dsn) as conn:
        return conn.execute("select name from prices order by name").fetchall()


def test_its_function_runs_when_it_is_hit(project: Path, empty_dsn: str, serve: Serve) -> None:
    for _ in range(2):
        said = cronlease(project, "migrate", "--setup", "schema.sql", DATABASE_URL=empty_dsn)
        assert said.endswith("ran schema.sql\nThe schema is up to date.\n")
    served = serve(empty_dsn, target="refresh_prices", source=project / "main.py")
    first, second = served.hit().json(), served.hit().json()
    assert (first["status"], first["fetched"]) == ("success", 2)
    assert (second["skipped"], second["reason"]) == (True, "not_due")
    assert prices(empty_dsn) == [("bread",), ("milk",)]


@pytest.mark.thorough
@pytest.mark.timeout(180)
def test_the_commands_of_its_readme_work(project: Path, place: Path) -> None:
    """On the embedded server, one after another, as they are written."""
    (block,) = re.findall(r"^```sh\n(.*?)^```$", (project / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    # Before the requirements, which name it; here it is installed already.
    assert block.startswith("pip install '/path/to/clone[local]' pytest && ")
    block = block.replace("/path/to/clone", "cronlease")
    # The programs beside this Python; a data directory of our own.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = clean_environment(PATH=path, CRONLEASE_DATA_DIR=str(place), NO_COLOR="1")
    ended = subprocess.run(
        ["bash", "-ec", block], cwd=project, env=environment, capture_output=True, text=True, timeout=150
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for said in ("2 passed", "ran schema.sql", "refresh_prices: success", "0 broken, 0 warnings."):
        assert said in ended.stdout
    assert len((project / "README.md").read_text().splitlines()) <= 14


def test_nothing_is_overwritten_and_then_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("mine")
    (tmp_path / ".gitignore").symlink_to(tmp_path / "nowhere")
    status, said = init(tmp_path)
    assert (status, said) == (
        2,
        f"Error: {tmp_path} already has main.py, .gitignore: nothing was written, name another folder\n",
    )
    assert {path.name for path in tmp_path.iterdir()} == {"main.py", ".gitignore"}
    assert (tmp_path / "main.py").read_text() == "mine"


def test_what_else_is_there_stays_and_the_folder_may_be_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    status, said = init("--json")
    assert status == 0
    assert set(json.loads(said)["files"]) == FILES
    assert {path.name for path in tmp_path.iterdir()} == {*FILES, "notes.txt"}


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    status, said = init(tmp_path / "file" / "prices")
    assert (status, said.count("\n")) == (2, 1)
    assert said.endswith("Not a directory: nothing was written, name another folder\n")


@pytest.mark.thorough
def test_a_schema_that_cannot_be_run_is_one_sentence(project: Path, empty_dsn: str, tmp_path: Path) -> None:
    migrate = partial(Shell(empty_dsn, tmp_path).quickly, "migrate")
    assert migrate("--setup", str(project / "nowhere.sql"))[0] == 2
    with psycopg.connect(empty_dsn) as conn:
        assert conn.execute("select to_regclass('refresh_schedule') is null").fetchone() == (True,)
    assert migrate("--check", "--setup", str(project / "schema.sql"))[0] == 2
    text = (project / "schema.sql").read_text()
    (project / "schema.sql").write_text(text.replace("if not exists prices", "prices"))
    assert migrate("--setup", str(project / "schema.sql"))[0] == 0
    status, _, said = migrate("--setup", str(project / "schema.sql"))
    assert (status, said.count("\n")) == (1, 1)
    assert 'schema.sql, line 2: relation "prices" already exists; it is run every time' in said


def test_a_folder_has_a_name_and_the_shell_can_read_it(tmp_path: Path) -> None:
    status, said = init("")
    assert (status, "must not be empty" in said) == (2, True)
    assert f"Next: cd '{tmp_path}/two words', and" in init(tmp_path / "two words")[1]


@pytest.mark.parametrize("ending", ["", "_alpha"])
def test_its_table_is_open_to_the_role_that_runs_it(
    project: Path, empty_dsn: str, tmp_path: Path, ending: str
) -> None:
    cronlease = Shell(empty_dsn, tmp_path)
    if ending:
        cronlease.environment["CRONLEASE_SCHEMA"] = ending.removeprefix("_")
    cronlease.says_quickly("migrate", "--roles", "--setup", str(project / "schema.sql"))
    granted = f"select has_table_privilege('cronlease_runner{ending}', 'prices', %s)"
    roles = f"cronlease_runner{ending}, cronlease_reader{ending}"
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        try:
            rights = [conn.execute(granted, [right]).fetchone() for right in ("insert", "update", "delete")]
        finally:
            # Roles are the server's, which the next tests use, too.
            conn.execute(f"drop owned by {roles}; drop role {roles}".encode())
    assert rights == [(True,), (True,), (False,)]
