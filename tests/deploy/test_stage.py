"""The directory that is deployed: complete, pinned, and able to answer a hit where nothing else of ours is."""

import json
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import psycopg
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.deploy.jobs import DEPLOY, ROOT, TEMPLATE, definition
from tests.deploy.manifests import one, pods
from tests.deploy.staging import alone, image_settings, installed, run, serving, staged
from tests.integration.conftest import wait_until
from tests.require import need

LOCK = (ROOT / "requirements.lock").read_text()


SOURCES = ROOT / "functions" / "opening_signals" / "sources.toml"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return staged(tmp_path_factory.mktemp("stage"), sources=str(SOURCES))


@pytest.fixture(scope="module")
def empty_environment(stage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(stage, tmp_path_factory.mktemp("venv"))


def test_the_lock_pins_every_requirement_of_the_project_by_hash() -> None:
    lines = re.findall(r"^([a-z0-9-]+(?:\[.*?\])?)==(\S+)", LOCK, re.MULTILINE)
    pinned = {name.partition("[")[0]: version for name, version in lines}
    extras = {name for name, _ in lines if "[" in name}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in map(Requirement, [*project["dependencies"], *project["optional-dependencies"]["oidc"]]):
        version = pinned.get(requirement.name.lower())
        assert version, f"{requirement.name} is not in requirements.lock: its second line says how to make it anew"
        # Without its extra, pip 23 refuses it by hash.
        asked = {f"{requirement.name}[{extra}]" for extra in requirement.extras}
        assert asked <= extras, f"requirements.lock does not pin {asked}"
        assert Version(version) in requirement.specifier, f"requirements.lock has {requirement.name} {version}"
    assert len(re.findall(r" \\\n    --hash", LOCK)) >= len(pinned)
    assert "://" not in LOCK


def test_the_stage_has_what_is_deployed_and_nothing_else(stage: Path) -> None:
    (wheel,) = stage.glob("*.whl")
    names = {path.name for path in stage.iterdir()}
    own = {"main.py", "jobs.json", "schema.sql", "sources.toml"}
    assert names == {wheel.name, "requirements.txt", "Dockerfile", *own}
    assert json.loads((stage / "jobs.json").read_text()) == {
        **definition(),
        "environment": {"CRONLEASE_SOURCES": "sources.toml"},
    }
    requirements = (stage / "requirements.txt").read_text()
    assert requirements.startswith(LOCK)
    assert f"./{wheel.name}" in requirements
    inside = set(zipfile.ZipFile(wheel).namelist())
    files = [path for path in (ROOT / "schema").rglob("*") if path.is_file() and path.suffix != ".md"]
    parts = [path.relative_to(ROOT / "schema").parts for path in files]
    shipped = {"/".join((package, "schema", *rest)) for package, *rest in parts}
    assert len(shipped) > 40
    assert shipped <= inside


def test_every_requirement_can_be_had_for_the_python_of_the_image(tmp_path: Path) -> None:
    """As a wheel: a slim image has no compiler."""
    (python,) = re.findall(r"^ARG PYTHON=(\S+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    there = ("--target", tmp_path, "--python-version", python, "--python-platform", "x86_64-unknown-linux-gnu")
    wheels = ("--only-binary", ":all:", "--require-hashes", "--requirement", ROOT / "requirements.lock")
    run(need("uv"), "pip", "install", "--dry-run", *there, *wheels)


def test_the_image_has_the_settings_of_jobs_json(stage: Path) -> None:
    ((name, function),) = definition()["functions"].items()
    assert image_settings(stage) == {
        "CRONLEASE_SOURCES": "sources.toml",
        "CRONLEASE_LEASE": function["lease"],
        "CRONLEASE_MAX_RUN": function["max_run"],
        "FUNCTION_TARGET": name,
    }
    ended = subprocess.run([need("hadolint"), str(stage / "Dockerfile")], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "")


@pytest.mark.parametrize("served_by", ["functions-framework", "the image's"])
def test_the_staged_directory_alone_answers_a_hit(
    stage: Path, empty_environment: Path, empty_dsn: str, tmp_path: Path, served_by: str
) -> None:
    (of_image,) = re.findall(r"^CMD (.+)$", (stage / "Dockerfile").read_text(), re.MULTILINE)
    command = json.loads(of_image) if served_by == "the image's" else [served_by]
    log = tmp_path / "function.log"
    with serving(stage, empty_environment, log, command, DATABASE_URL=empty_dsn) as served:
        first, second = served.hit(), served.hit()
    assert (first.status_code, first.json()["status"]) == (200, "success"), log.read_text()
    assert second.json()["reason"] == "not_due"
    assert runs(empty_dsn) == [(1, "success")]


def test_the_wheel_alone_can_make_a_new_project(empty_environment: Path, tmp_path: Path) -> None:
    made = tmp_path / "prices"
    subprocess.run([empty_environment / "cronlease", "init", made], env=alone(empty_environment), check=True)
    assert {path.name.lstrip(".") for path in made.iterdir()} == {path.name for path in TEMPLATE.glob("*.*")} | {
        "gitignore"
    }


def test_the_commands_of_the_kubernetes_pods_work_there(
    stage: Path, empty_environment: Path, empty_dsn: str, tmp_path: Path
) -> None:
    settings: dict[str, str] = one("ConfigMap", "cronlease")["data"]
    place = {"CRONLEASE_DATA_DIR": str(tmp_path), "FUNCTION_SOURCE": "main.py", **image_settings(stage)}
    environment = alone(
        empty_environment, DATABASE_URL=empty_dsn, KUBERNETES_SERVICE_HOST="10.0.0.1", **{**place, **settings}
    )
    commands = {name: pod["containers"][0].get("command") for name, pod in pods().items()}

    def ask(name: str) -> str:
        program, *words = commands[name]
        ended = subprocess.run(
            [empty_environment / program, *words], cwd=stage, env=environment, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    assert "The schema is up to date." in ask(next(name for name in commands if name.startswith("cronlease-migrate")))
    program, *words = commands["cronlease-worker"]
    with (tmp_path / "worker.log").open("wb") as out:
        worker = subprocess.Popen(
            [empty_environment / program, *words], cwd=stage, env=environment, stdout=out, stderr=out
        )
    try:
        wait_until(lambda: runs(empty_dsn) == [(1, "success")], 30)
    finally:
        worker.terminate()
        assert worker.wait(pods()["cronlease-worker"]["terminationGracePeriodSeconds"]) == 0
    # As long_runs.sh has it: a Cloud Run job sets this variable.
    environment |= {"CLOUD_RUN_JOB": "cronlease-run-due", "CRONLEASE_MAX_RUN": "7170s"}
    assert json.loads(ask("cronlease-run-due"))["ran"] == []


def runs(dsn: str) -> list[tuple[int, str | None]]:
    with psycopg.connect(dsn) as conn:
        return conn.execute("select run_count, last_status from public.refresh_schedule").fetchall()
