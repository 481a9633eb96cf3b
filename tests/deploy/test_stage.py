"""The directory that is deployed: complete, pinned, and able to answer a hit where nothing else of ours is."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import psycopg
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.acceptance.conftest import Served, answers, clean_environment, free_port, stop
from tests.deploy.jobs import DEPLOY
from tests.deploy.manifests import one, pods
from tests.integration.conftest import wait_until
from tests.require import need

ROOT = DEPLOY.parent
LOCK = (ROOT / "requirements.lock").read_text()


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    environment = {**os.environ, "PYTHON": sys.executable}
    ended = subprocess.run([str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("uv")  # building the wheel takes an index, too: who has the one has the other
    folder = tmp_path_factory.mktemp("stage")
    run(DEPLOY / "stage.sh", folder)
    return folder


@pytest.fixture(scope="module")
def empty_environment(stage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a virtual environment with the stage's requirements in it, their hashes checked."""
    uv, venv = need("uv"), tmp_path_factory.mktemp("venv")
    run(uv, "venv", "--quiet", "--clear", venv)
    python = venv / "bin" / "python"
    # From inside, as a platform's build would: the wheel is named relative to the file.
    install = ("pip", "install", "--quiet", "--require-hashes", "--requirement", "requirements.txt")
    run(uv, *install, "--python", python, cwd=stage)
    return python.parent


def test_the_lock_pins_every_requirement_of_the_project_by_hash() -> None:
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in map(Requirement, [*project["dependencies"], *project["optional-dependencies"]["oidc"]]):
        version = pinned.get(requirement.name.lower())
        assert version, f"{requirement.name} is not in requirements.lock: its second line says how to make it anew"
        assert Version(version) in requirement.specifier, f"requirements.lock has {requirement.name} {version}"
    assert len(re.findall(r" \\\n    --hash", LOCK)) >= len(pinned)
    assert "://" not in LOCK


def test_the_stage_has_what_is_deployed_and_nothing_else(stage: Path) -> None:
    (wheel,) = stage.glob("*.whl")
    names = {path.name for path in stage.iterdir()}
    assert names == {wheel.name, "main.py", "requirements.txt", "sources.toml", "Dockerfile"}
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


def test_a_stage_is_never_made_over_another(stage: Path) -> None:
    ended = subprocess.run([DEPLOY / "stage.sh", stage], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "is not empty" in ended.stderr


def alone(programs: Path, **settings: str) -> dict[str, str]:
    """An environment in which nothing of the checkout or of this Python helps."""
    environment = clean_environment(**settings)
    del environment["PYTHONPATH"]
    return environment | {"PATH": os.pathsep.join([str(programs), "/usr/bin", "/bin"])}


@pytest.mark.parametrize("served_by", ["functions-framework", "the image's"])
def test_the_staged_directory_alone_answers_a_hit(
    stage: Path, empty_environment: Path, empty_dsn: str, tmp_path: Path, served_by: str
) -> None:
    (of_image,) = re.findall(r"^CMD (.+)$", (stage / "Dockerfile").read_text(), re.MULTILINE)
    program, *words = json.loads(of_image) if served_by == "the image's" else [served_by]
    port = free_port()
    environment = alone(
        empty_environment,
        DATABASE_URL=empty_dsn,
        K_SERVICE="refresh-opening-signals",
        CRONLEASE_AUTH="iam",
        CRONLEASE_SOURCES="sources.toml",
        FUNCTION_TARGET="refresh_opening_signals",
        PORT=str(port),
    )
    log = tmp_path / "function.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [empty_environment / program, *words],
            cwd=stage,
            env=environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    served = Served(f"http://127.0.0.1:{port}", process, log)
    try:
        wait_until(lambda: answers(served), 30)
        first, second = served.hit(), served.hit()
    finally:
        stop(process)
    assert (first.status_code, first.json()["status"]) == (200, "success"), log.read_text()
    assert second.json()["reason"] == "not_due"
    assert runs(empty_dsn) == [(1, "success")]


def test_the_commands_of_the_kubernetes_pods_work_there(
    stage: Path, empty_environment: Path, empty_dsn: str, tmp_path: Path
) -> None:
    settings: dict[str, str] = one("ConfigMap", "cronlease")["data"]
    sources = tmp_path / "sources.toml"
    sources.write_text(one("ConfigMap", "cronlease-sources")["data"]["sources.toml"])
    place = {"CRONLEASE_SOURCES": str(sources), "CRONLEASE_DATA_DIR": str(tmp_path), "FUNCTION_SOURCE": "main.py"}
    environment = alone(
        empty_environment, DATABASE_URL=empty_dsn, KUBERNETES_SERVICE_HOST="10.0.0.1", **{**settings, **place}
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
    assert json.loads(ask("cronlease-run-due"))["ran"] == []


def runs(dsn: str) -> list[tuple[int, str | None]]:
    with psycopg.connect(dsn) as conn:
        return conn.execute("select run_count, last_status from public.refresh_schedule").fetchall()
