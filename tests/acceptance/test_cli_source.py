"""Which file the verbs take their functions from, as a person in a folder of their own sees it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from cronlease.cli.source import shipped
from tests.acceptance.conftest import clean_environment

pytestmark = pytest.mark.thorough

MAIN = """
from cronlease import Run, scheduled

print("imported")


@scheduled(every="10m..15m")
async def refresh_prices(run: Run) -> None:
    async with run.commit() as conn:
        await conn.execute("create table if not exists prices (id int)")
        await conn.execute("insert into prices values (1)")
"""
TWO = MAIN + "\n\n@scheduled\ndef prune(run: Run) -> None: ...\n"
# What must not be imported only because it lies there.
STRANGER = "import sys\nfrom pathlib import Path\n\nPath('touched').touch()\nsys.exit('started a server')\n"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def here(tmp_path: Path, dsn: str) -> Run:
    """Runs a verb in a folder; give it the text of its main.py."""

    def run(*words: str, main: str | None = MAIN, **extra: str) -> "subprocess.CompletedProcess[str]":
        if main is not None:
            (tmp_path / "main.py").write_text(main)
        environment = clean_environment(DATABASE_URL=dsn, CRONLEASE_DATA_DIR=str(tmp_path), **extra)
        command = [sys.executable, "-m", "cronlease", *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=50)

    return run


def test_a_main_py_in_the_folder_is_run_and_named(here: Run, dsn: str) -> None:
    ran = here("trigger")
    assert (ran.returncode, ran.stderr) == (0, "imported\nsource: ./main.py\n")
    assert ran.stdout.startswith("refresh_prices: success in ")
    with psycopg.connect(dsn) as conn:
        assert conn.execute("select function_name from refresh_runs").fetchall() == [("refresh_prices",)]
        assert conn.execute("select count(*) from prices").fetchone() == (1,)
    assert "source: ./main.py\n" in here("run-due").stderr
    assert "source: ./main.py\n" in here("explain", "refresh_prices").stderr
    assert "ok       source      ./main.py declares refresh_prices\n" in here("doctor").stdout
    # Nothing among what a program reads.
    assert here("trigger", "--json").stdout.count("\n") == 1
    assert here("trigger", "--json").stderr == "imported\n"


def test_the_option_wins_over_the_variable_and_that_over_the_folder(here: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(MAIN.replace("refresh_prices", name))
    assert "two: success" in here("trigger", "--source", "two.py", FUNCTION_SOURCE="one.py").stdout
    ran = here("trigger", FUNCTION_SOURCE="one.py")
    assert (ran.stdout.split(":")[0], ran.stderr) == ("one", "imported\nsource: one.py (FUNCTION_SOURCE)\n")


def test_without_any_it_is_the_shipped_one_and_says_so(here: Run) -> None:
    ran = here("run-due", main=None)
    assert ran.stderr == f"source: {shipped()}, the shipped one: there is no ./main.py here\n"


def test_of_several_functions_one_has_to_be_named(here: Run) -> None:
    for verb in ("trigger", "emulate"):
        ran = here(verb, main=TWO)
        assert (ran.returncode, ran.stdout) == (2, "")
        sentence = "Error: say which function with --target: ./main.py has refresh_prices, prune"
        assert ran.stderr.splitlines()[-1] == sentence
    assert "prune: success" in here("trigger", "--target", "prune", main=TWO).stdout


@pytest.mark.parametrize("verb", ["trigger", "run-due", "worker", "emulate"])
def test_a_main_py_that_is_no_source_is_one_sentence_and_is_not_imported(
    here: Run, tmp_path: Path, verb: str
) -> None:
    ran = here(verb, main=STRANGER)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert ran.stderr.startswith("Error: ./main.py does not import cronlease, so it was not loaded: pass --source ")
    assert not (tmp_path / "touched").exists()


def test_verbs_that_only_look_go_on_without_a_main_py_that_cannot_be_used(here: Run, tmp_path: Path) -> None:
    here("trigger")
    for text, sentence in (
        (STRANGER, "./main.py does not import cronlease"),
        ("import cronlease\nimport nowhere_to_be_found", "cannot be imported, ModuleNotFoundError"),
    ):
        ran = here("explain", "refresh_prices", main=text)
        assert (ran.returncode, ran.stderr.count("\n")) == (0, 1)
        assert ran.stderr.startswith("Warning: ")
        assert sentence in ran.stderr
        assert "It is not due until" in ran.stdout
    assert "warning  source      ./main.py does not import cronlease" in here("doctor", main=STRANGER).stdout
    # Named by somebody it is imported, whatever it is.
    ran = here("explain", "refresh_prices", "--source", "main.py", main=STRANGER)
    assert (ran.returncode, (tmp_path / "touched").exists()) == (2, True)


def test_only_actions_cannot_be_hit(here: Run) -> None:
    ran = here("trigger", main="from cronlease import action\n\n\n@action('tidy')\ndef tidy(run): ...\n")
    assert ran.stderr.splitlines()[-1].startswith("Error: ./main.py declares only actions: write @scheduled")
