"""What tests of staged directories share: staging, installing what one requires, and serving it with nothing else."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.conftest import Served, answers, clean_environment, free_port, stop
from tests.deploy.jobs import DEPLOY, ROOT
from tests.integration.conftest import wait_until
from tests.require import need


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> None:
    ended = attempt(*command, cwd=cwd, **variables)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def attempt(*command: str | Path, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SOURCES": "", "PYTHON": sys.executable, **variables}
    return subprocess.run([str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True)


def staged(place: Path, folder: Path | None = None, sources: str = "") -> Path:
    need("uv")  # building the wheel takes an index, too: who has the one has the other
    run(DEPLOY / "stage.sh", place, *([folder] if folder else []), SOURCES=sources)
    return place


def installed(stage: Path, venv: Path) -> Path:
    """The programs of a virtual environment with the stage's requirements in it, their hashes checked."""
    uv = need("uv")
    run(uv, "venv", "--quiet", "--clear", venv)
    python = venv / "bin" / "python"
    # From inside, as a platform's build would: the wheel is named relative to the file.
    install = ("pip", "install", "--quiet", "--require-hashes", "--requirement", "requirements.txt")
    run(uv, *install, "--python", python, cwd=stage)
    return python.parent


def image_settings(stage: Path) -> dict[str, str]:
    """What jobs.json has left in the environment of the image."""
    return dict(re.findall(r'([A-Z_]+)="(.*)"', (stage / "Dockerfile").read_text()))


def alone(programs: Path, **settings: str) -> dict[str, str]:
    """An environment in which nothing of the checkout or of this Python helps."""
    environment = clean_environment(**settings)
    del environment["PYTHONPATH"]
    return environment | {"PATH": os.pathsep.join([str(programs), "/usr/bin", "/bin"])}


@contextmanager
def serving(
    stage: Path, programs: Path, log: Path, command: Sequence[str] = ("functions-framework",), **settings: str
) -> Iterator[Served]:
    """The command in that directory, on a platform by the look of it, with the settings of the image."""
    port = free_port()
    own = {**image_settings(stage), "K_SERVICE": "function", "CRONLEASE_AUTH": "iam", "PORT": str(port), **settings}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [programs / command[0], *command[1:]],
            cwd=stage,
            env=alone(programs, **own),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    served = Served(f"http://127.0.0.1:{port}", process, log)
    try:
        wait_until(lambda: answers(served), 30)
        yield served
    finally:
        stop(process)
