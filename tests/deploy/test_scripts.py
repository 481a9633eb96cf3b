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
    "SETTINGS": "CRONLEASE_EVERY=5m..6m",
    "ALERT_CHANNELS": "projects/my-project/notificationChannels/1,projects/my-project/notificationChannels/2",
}


def deploy(cwd: Path = DEPLOY, **changes: str) -> subprocess.CompletedProcess[str]:
    """The script with those variables changed; an empty one counts as not set."""
    environment = {**os.environ, **ENVIRONMENT, **changes}
    script = str(DEPLOY / "gcloud" / "deploy.sh")
    return subprocess.run([script], cwd=cwd, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def commands() -> list[list[str]]:
    """What the script would have gcloud do, as words."""
    ended = deploy()
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


def test_the_script_gives_the_function_the_settings_that_terraform_gives(commands: list[list[str]]) -> None:
    (deployed,) = [command for command in commands if command[1:3] == ["run", "deploy"]]
    settings = dict(pair.split("=") for pair in flags(deployed)["set-env-vars"].split(","))
    assert settings.pop("CRONLEASE_EVERY") == "5m..6m"
    assert settings["GOOGLE_CLOUD_PROJECT"] == "my-project"
    text = (DEPLOY / "cloudrun" / "service.tf").read_text()
    (own,) = re.findall(r"merge\(var\.environment, \{(.*?)\}\)", text, re.DOTALL)
    assert set(re.findall(r"^ *([A-Z_]+) +=", own, re.MULTILINE)) == set(settings)
    # Neither lets a further setting take the place of one of these.
    variables = (DEPLOY / "cloudrun" / "variables.tf").read_text()
    (kept,) = re.findall(r"setintersection\(keys\(var\.environment\), \[(.*?)\]", variables, re.DOTALL)
    assert set(re.findall(r"[A-Z_]{2,}", kept)) == {*settings, "DATABASE_URL"}
    for name in (*settings, "DATABASE_URL"):
        assert deploy(SETTINGS=f"CRONLEASE_RETENTION=7d,{name}=x").returncode == 2, name


def test_gcloud_knows_every_flag_the_script_uses(commands: list[list[str]], tmp_path: Path) -> None:
    """One flag more, unknown for sure, makes it refuse before it does anything, and say all that it does not know."""
    gcloud = need("gcloud")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CLOUDSDK_")}
    environment["CLOUDSDK_CONFIG"] = str(tmp_path)
    chosen = {tuple(command[1:3]): [gcloud, *command[1:], "--nonsense=1"] for command in commands}
    asked = [
        subprocess.Popen(chosen[verb], env=environment, stderr=subprocess.PIPE, text=True)
        for verb in (("run", "deploy"), ("scheduler", "jobs"), ("alpha", "monitoring"))
    ]
    for process in asked:
        _, said = process.communicate(timeout=50)
        _, _, unknown = said.partition("unrecognized arguments:")
        assert re.findall(r"--[a-z]\S*", unknown) == ["--nonsense=1"], said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"PROJECT": ""}, "export PROJECT=my-project"),
        ({"REGION": ""}, "export REGION=europe-west1"),
        ({"SOURCES": "mine.toml"}, "SOURCES is mine.toml, and from"),
        ({"CLOUD_SQL": "db"}, "PROJECT:REGION:INSTANCE"),
        ({"MIGRATE": "maybe"}, "auto or never"),
        ({"ALERT_CHANNELS": "me@example.com"}, "notificationChannels/123"),
        (
            {"SETTINGS": "CRONLEASE_EVERY=5m,CRONLEASE_LEASE=1m"},
            "SETTINGS has CRONLEASE_LEASE, which is set elsewhere",
        ),
        ({"DRY_RUN": "", "DATABASE_URL": ""}, "export DATABASE_URL=postgresql://"),
    ],
)
def test_what_cannot_be_deployed_is_said_in_one_sentence_before_anything_is_made(
    tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    knows_nothing = tmp_path / "gcloud"
    knows_nothing.write_text('#!/bin/sh\ncase "$*" in *describe*) exit 1;; *) echo "made: $*";; esac\n')
    knows_nothing.chmod(0o755)
    ended = deploy(tmp_path, PATH=os.pathsep.join([str(tmp_path), os.environ["PATH"]]), **changes)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1), ended.stderr
    assert said in ended.stderr
    assert SECRET not in ended.stderr


def test_the_sources_are_looked_for_where_the_caller_is(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").touch()
    assert deploy(tmp_path, SOURCES="mine.toml").returncode == 0


@pytest.mark.parametrize("words", [[], [""], ["--help"], ["one", "two", "three"]])
def test_staging_without_the_right_words_says_which(words: list[str]) -> None:
    ended = subprocess.run([str(DEPLOY / "stage.sh"), *words], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("usage: deploy/stage.sh DIR [SOURCES.toml]")
