"""The shell scripts and the Dockerfile: linted, and the one for gcloud asked what it would do."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.deploy.jobs import DEPLOY, definition
from tests.require import need

SECRET = "wr0ng-s3cret"
ENVIRONMENT = {
    "DRY_RUN": "1",
    "PROJECT": "my-project",
    "REGION": "europe-west1",
    "DATABASE_URL": f"postgresql://me:{SECRET}@h/d",
    "CLOUD_SQL": "my-project:europe-west1:db",
}


@pytest.fixture(scope="module")
def commands() -> list[list[str]]:
    """What the script would have gcloud do, as words."""
    ended = subprocess.run(
        [str(DEPLOY / "gcloud" / "deploy.sh")], env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert SECRET not in ended.stdout
    return [shlex.split(line) for line in ended.stdout.splitlines()]


def flags(command: list[str]) -> dict[str, str]:
    return dict(word[2:].split("=", 1) for word in command if word.startswith("--") and "=" in word)


def test_the_scripts_pass_shellcheck() -> None:
    scripts = [*DEPLOY.rglob("*.sh"), DEPLOY.parent / ".ci" / "run"]
    assert len(scripts) >= 3
    ended = subprocess.run([need("shellcheck"), *map(str, scripts)], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_the_dockerfile_passes_hadolint_and_ends_unprivileged() -> None:
    ended = subprocess.run([need("hadolint"), str(DEPLOY / "Dockerfile")], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "")
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.findall(r"^USER (.+)$", text, re.MULTILINE) == ["10001:10001"]
    (target,) = re.findall(r"FUNCTION_TARGET=(\w+)", text)
    assert target in definition()["functions"]


def test_the_script_deploys_what_the_one_definition_says(commands: list[list[str]]) -> None:
    (deployed,) = [command for command in commands if command[1:3] == ["run", "deploy"]]
    ((name, function),) = definition()["functions"].items()
    given = flags(deployed)
    settings = dict(pair.split("=") for pair in given["set-env-vars"].split(","))
    assert deployed[3] == name.replace("_", "-")
    assert "--no-allow-unauthenticated" in deployed
    assert given["timeout"] == function["request_timeout"]
    assert (settings["CRONLEASE_LEASE"], settings["CRONLEASE_MAX_RUN"]) == (function["lease"], function["max_run"])
    assert (settings["CRONLEASE_AUTH"], settings["FUNCTION_TARGET"]) == ("iam", name)
    hits = {command[5]: flags(command) for command in commands if command[1:3] == ["scheduler", "jobs"]}
    assert set(hits) == {f"cronlease-{job}" for job in definition()["jobs"]}
    for job, wanted in definition()["jobs"].items():
        hit = hits[f"cronlease-{job}"]
        assert hit["uri"] == hit["oidc-token-audience"] + wanted["path"]
        assert [hit[key] for key in ("schedule", "time-zone", "attempt-deadline")] == [
            wanted[key] for key in ("schedule", "time_zone", "attempt_deadline")
        ]
        retries = ("max-retry-attempts", "max-retry-duration", "min-backoff", "max-backoff", "max-doublings")
        assert [hit[key] for key in retries] == [str(value) for value in wanted["retry"].values()]


def test_gcloud_knows_every_flag_the_script_uses(commands: list[list[str]], tmp_path: Path) -> None:
    """One flag more, unknown for sure, makes it refuse before it does anything, and say all that it does not know."""
    gcloud = need("gcloud")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CLOUDSDK_")}
    environment["CLOUDSDK_CONFIG"] = str(tmp_path)
    chosen = {tuple(command[1:3]): [gcloud, *command[1:], "--nonsense=1"] for command in commands}
    asked = [
        subprocess.Popen(chosen[verb], env=environment, stderr=subprocess.PIPE, text=True)
        for verb in (("run", "deploy"), ("scheduler", "jobs"))
    ]
    for process in asked:
        _, said = process.communicate(timeout=50)
        _, _, unknown = said.partition("unrecognized arguments:")
        assert re.findall(r"--[a-z]\S*", unknown) == ["--nonsense=1"], said
