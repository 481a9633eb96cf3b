"""The shell scripts and the Dockerfile: linted, and the dry runs of those for gcloud."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from folder import RESERVED
from gcloud import permissions

from tests.deploy.jobs import DEPLOY, TEMPLATE, definition
from tests.require import need

pytestmark = pytest.mark.thorough

SECRET = "wr0ng-s3cret"
ENVIRONMENT = {
    "DRY_RUN": "1",
    "PROJECT": "my-project",
    "REGION": "europe-west1",
    "DATABASE_URL": f"postgresql://me:{SECRET}@/d?host=/cloudsql/my-project:europe-west1:db",
    "CLOUD_SQL": "",
    "SETTINGS": "CRONLEASE_EVERY=5m..6m",
    "ALERT_CHANNELS": "projects/my-project/notificationChannels/1,projects/my-project/notificationChannels/2",
}


def deploy(cwd: Path = DEPLOY, script: str = "deploy.sh", **changes: str) -> subprocess.CompletedProcess[str]:
    """The script with those variables changed; an empty one counts as not set."""
    environment = {**os.environ, "PYTHON": sys.executable, **ENVIRONMENT, **changes}
    program = str(DEPLOY / "gcloud" / script)
    return subprocess.run([program], cwd=cwd, env=environment, capture_output=True, text=True)


def printed(ended: subprocess.CompletedProcess[str]) -> list[list[str]]:
    assert ended.returncode == 0, ended.stderr
    assert SECRET not in ended.stdout
    return [shlex.split(line) for line in ended.stdout.splitlines()]


@pytest.fixture(scope="module")
def commands() -> list[list[str]]:
    """What the script would have gcloud do, as words."""
    return printed(deploy())


def flags(command: list[str]) -> dict[str, str]:
    return dict(word[2:].split("=", 1) for word in command if word.startswith("--") and "=" in word)


def settings_of(command: list[str]) -> dict[str, str]:
    mark, given = flags(command)["set-env-vars"][:4], flags(command)["set-env-vars"][4:]
    assert mark == "^~~^"
    return dict(pair.split("=", 1) for pair in given.split("~~"))


def test_the_scripts_pass_shellcheck() -> None:
    root = DEPLOY.parent
    scripts = [*DEPLOY.rglob("*.sh"), *root.glob("tests/examples/*.sh"), root / ".ci" / "check", root / ".ci" / "run"]
    assert len(scripts) >= 3
    ended = subprocess.run([need("shellcheck"), "-x", *map(str, scripts)], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_the_dockerfile_passes_hadolint_and_ends_unprivileged() -> None:
    ended = subprocess.run([need("hadolint"), str(DEPLOY / "Dockerfile")], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "")
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.findall(r"^USER (.+)$", text, re.MULTILINE) == ["10001:10001"]


def test_the_script_deploys_what_the_one_definition_says(commands: list[list[str]]) -> None:
    (deployed,) = [command for command in commands if command[1:3] == ["run", "deploy"]]
    ((name, function),) = definition()["functions"].items()
    given, settings = flags(deployed), settings_of(deployed)
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
    settings = settings_of(deployed)
    assert settings.pop("CRONLEASE_EVERY") == "5m..6m"
    assert settings["GOOGLE_CLOUD_PROJECT"] == "my-project"
    text = (DEPLOY / "cloudrun" / "service.tf").read_text()
    (own,) = re.findall(r"merge\(local\.environment, \{(.*?)\}\)", text, re.DOTALL)
    assert set(re.findall(r"^ *([A-Z_]+) +=", own, re.MULTILINE)) == set(settings)
    # Neither lets a further setting take the place of one of these.
    variables = (DEPLOY / "cloudrun" / "variables.tf").read_text()
    (kept,) = re.findall(r"setintersection\(keys\(var\.environment\), \[(.*?)\]", variables, re.DOTALL)
    assert set(re.findall(r"[A-Z_]{2,}", kept)) == RESERVED >= {*settings, "DATABASE_URL"}
    for name in RESERVED:
        assert deploy(SETTINGS=f"CRONLEASE_RETENTION=7d,{name}=x").returncode == 2, name


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_gcloud_knows_every_flag_the_scripts_use(commands: list[list[str]], tmp_path: Path) -> None:
    """One flag more, unknown for sure, makes it refuse before it does anything, and say all that it does not know."""
    gcloud = need("gcloud")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CLOUDSDK_")}
    environment["CLOUDSDK_CONFIG"] = str(tmp_path)
    more = printed(deploy(script="long_runs.sh", NETWORK="n", SUBNET="s"))
    groups = ("alpha", "artifacts", "builds", "run", "scheduler")
    chosen = {tuple(command[1:4]): command for command in [*commands, *more] if command[1] in groups}
    asked = list(chosen.values())
    assert len(asked) >= 10
    with ThreadPoolExecutor(2) as threads:
        said = threads.map(
            lambda command: (
                subprocess.run(
                    [gcloud, *command[1:], "--nonsense=1"], env=environment, capture_output=True, text=True
                ).stderr
            ),
            asked,
        )
    for command, text in zip(asked, said, strict=True):
        _, _, unknown = text.partition("unrecognized arguments:")
        assert re.findall(r"--[a-z]\S*", unknown) == ["--nonsense=1"], (command, text)


def test_the_schema_is_applied_before_the_functions_are_replaced(commands: list[list[str]]) -> None:
    names = [" ".join(command[1:4]) for command in commands]
    order = [names.index(name) for name in ("builds submit", "run jobs deploy", "run jobs execute") if name in names]
    built = next(place for place, name in enumerate(names) if name.startswith("builds submit"))
    replaced = next(place for place, name in enumerate(names) if name.startswith("run deploy"))
    assert built < min(order) <= max(order) < replaced
    migrate = commands[names.index("run jobs deploy")]
    assert flags(migrate)["args"] == "migrate,--setup,schema.sql"
    assert flags(migrate)["image"] == flags(commands[replaced])["image"] == flags(commands[built])["tag"]
    assert "--wait" in commands[names.index("run jobs execute")]
    assert not any("migrate" in line for line in deploy(MIGRATE="never").stdout.splitlines())


def test_a_deploy_that_names_no_instance_leaves_the_one_that_is_there() -> None:
    for given, wanted in (("", []), ("none", ["--clear-cloudsql-instances"])):
        for command in printed(deploy(DATABASE_URL="", CLOUD_SQL=given)):
            words = [word for word in command if "cloudsql-instances" in word]
            assert words == (
                wanted if command[1:3] == ["run", "deploy"] or command[2:4] == ["jobs", "deploy"] else []
            )


def test_an_instance_may_be_in_another_project_and_an_address_in_a_private_network() -> None:
    url = "postgresql://u:p@/d?host=/cloudsql/theirs:europe-west1:db&connect_timeout=5"
    commands = printed(deploy(DATABASE_URL=url, NETWORK="net", SUBNET="sub"))
    assert "sqladmin.googleapis.com" in commands[0]
    (granted,) = [command for command in commands if command[1] == "projects"]
    assert (granted[3], flags(granted)["role"]) == ("theirs", "roles/cloudsql.client")
    placed = [flags(command) for command in commands if "--service-account=" in " ".join(command)]
    assert len(placed) == 2
    for given in placed:
        assert given["set-cloudsql-instances"] == "theirs:europe-west1:db"
        assert (given["network"], given["subnet"], given["vpc-egress"]) == ("net", "sub", "private-ranges-only")
    assert "sqladmin.googleapis.com" not in printed(deploy(DATABASE_URL="postgresql://u:p@10.0.0.3/d"))[0]


def test_a_folder_is_deployed_with_its_own_functions_settings_and_names(tmp_path: Path) -> None:
    folder = tmp_path / "prices"
    shutil.copytree(TEMPLATE, folder)
    own = definition(folder) | {"environment": {"PRICES": "a, b=c", "CRONLEASE_EVERY": "1h..2h"}}
    own["secrets"] = {"API_KEY": "api-key"}
    (folder / "jobs.json").write_text(json.dumps(own))
    commands = printed(deploy(tmp_path, FOLDER="prices", NAME="prices", SETTINGS="CRONLEASE_EVERY=5m..6m"))
    (deployed,) = [command for command in commands if command[1:3] == ["run", "deploy"]]
    settings = settings_of(deployed)
    assert (deployed[3], settings["FUNCTION_TARGET"]) == ("refresh-prices", "refresh_prices")
    assert (settings["PRICES"], settings["CRONLEASE_EVERY"]) == ("a, b=c", "5m..6m")
    assert flags(deployed)["set-secrets"] == "DATABASE_URL=prices-database-url:latest,API_KEY=api-key:latest"
    readable = [command[3] for command in commands if command[1:3] == ["secrets", "add-iam-policy-binding"]]
    assert readable == ["prices-database-url", "api-key"]
    made = {command[command.index("create") + 1] for command in commands if "create" in command} - {"http"}
    assert {name.partition("-")[0] for name in made if not name.startswith("--")} == {"prices"}
    assert [command[5] for command in commands if command[1] == "scheduler"] == ["prices-refresh-prices"]


def test_long_runs_are_a_job_of_their_own_and_the_hits_are_paused() -> None:
    commands = printed(deploy(script="long_runs.sh", TIMEOUT="7200"))
    job, _, *paused, started = commands
    assert (job[2:5], flags(job)["args"]) == (["jobs", "deploy", "cronlease-run-due"], "run-due,--json")
    assert (flags(job)["task-timeout"], settings_of(job)["CRONLEASE_MAX_RUN"]) == ("7200s", "7170s")
    assert {command[4] for command in paused} == {f"cronlease-{name}" for name in definition()["jobs"]}
    assert all(command[1:4] == ["scheduler", "jobs", "pause"] for command in paused)
    assert flags(started)["uri"].endswith("/projects/my-project/locations/europe-west1/jobs/cronlease-run-due:run")
    assert deploy(script="long_runs.sh", TIMEOUT="2h").returncode == 2


@pytest.mark.parametrize(
    ("said", "tries", "status"),
    [("Service account a@b does not exist.", 3, 0), ("The image cannot be pulled.", 1, 1)],
)
def test_what_was_just_made_is_waited_for_and_other_errors_are_not(
    tmp_path: Path, said: str, tries: int, status: int
) -> None:
    """A gcloud that knows a new account only the third time."""
    program(
        tmp_path,
        f"""echo x >> {tmp_path}/tried
        [ $(wc -l < {tmp_path}/tried) -ge 3 ] || {{ echo "ERROR: {said}" >&2; exit 1; }}""",
    )
    environment = {**os.environ, **ENVIRONMENT, "DRY_RUN": "", "PAUSES": "0 0 0", "PYTHON": sys.executable}
    environment["PATH"] = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    script = f". {DEPLOY}/gcloud/common.sh; again secrets add-iam-policy-binding x"
    ended = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
    assert ended.returncode == status, ended.stderr
    assert (tmp_path / "tried").read_text().count("x") == tries
    assert said in ended.stderr


class Rights(BaseHTTPRequestHandler):
    """The one method of Google's API that is asked, for somebody who has all rights but one."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["permissions"]
        assert self.path == "/v1/projects/my-project:testIamPermissions"
        assert self.headers["Authorization"] == "Bearer the-token"
        held = [permission for permission in asked if permission != "run.services.setIamPolicy"]
        answer = json.dumps({"permissions": held}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None: ...


def test_a_missing_right_is_named_before_anything_is_made(tmp_path: Path) -> None:
    program(tmp_path, 'case "$*" in *print-access-token) echo the-token;; *) echo "made: $*";; esac')
    with ThreadingHTTPServer(("127.0.0.1", 0), Rights) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        ended = deploy(
            tmp_path,
            DRY_RUN="",
            PATH=os.pathsep.join([str(tmp_path), os.environ["PATH"]]),
            CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER=f"http://127.0.0.1:{server.server_port}/",
            no_proxy="*",
        )
        server.shutdown()
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1), ended.stderr
    assert ended.stderr.endswith("nothing was made: ask its owner to grant you roles/run.admin\n")
    roles = set(re.findall(r"`(roles/[\w.]+)`", (DEPLOY / "README.md").read_text()))
    assert roles >= {*permissions.ROLES.values(), *permissions.CLOUD_SQL.values()}


def program(folder: Path, script: str) -> None:
    """A gcloud that does that."""
    (folder / "gcloud").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "gcloud").chmod(0o755)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"PROJECT": ""}, "export PROJECT=my-project"),
        ({"REGION": ""}, "export REGION=europe-west1"),
        ({"SOURCES": "mine.toml"}, "SOURCES is mine.toml, but there is no such file"),
        ({"FOLDER": "nowhere"}, "nowhere has no main.py"),
        ({"NAME": "My Name"}, "2 to 20 lower-case letters"),
        ({"CLOUD_SQL": "db"}, "PROJECT:REGION:INSTANCE"),
        ({"CLOUD_SQL": "a:b:c", "DATABASE_URL": "postgresql://h/d"}, "@/DATABASE?host=/cloudsql/a:b:c"),
        ({"NETWORK": "default"}, "NETWORK and SUBNET go together"),
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
    program(tmp_path, 'case "$*" in *describe*) exit 1;; *) echo "made: $*";; esac')
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
    assert ended.stderr.startswith("usage: deploy/stage.sh DIR [FOLDER]")


# Knows nothing at first, then everything; writes down what it is asked, and what it is given.
GCLOUD = """
printf '%s\\n' "$*" >> {0}/asked
case "$*" in
  *print-access-token*) echo the-token;;
  *'value(status.url)'*) echo https://prices.example;;
  *'policies list'*) if [ -e {0}/made ]; then echo policy; fi;;
  *describe*) [ -e {0}/made ];;
  *--data-file=-*) cat > {0}/given;;
  'builds submit'*) ls "$3" > {0}/built;;
esac
"""


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_a_second_deploy_makes_nothing_twice(tmp_path: Path) -> None:
    """The whole script, with a stand-in for gcloud: nothing of Google's is asked."""
    need("uv")  # a wheel is built
    program(tmp_path, GCLOUD.format(tmp_path))
    place = {"DRY_RUN": "", "PATH": os.pathsep.join([str(tmp_path), os.environ["PATH"]]), "FOLDER": str(TEMPLATE)}
    place["CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER"] = "http://127.0.0.1:9/"

    def asked(**changes: str) -> list[str]:
        ended = deploy(tmp_path, **place, **changes)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "could not be checked" in ended.stderr
        lines = (tmp_path / "asked").read_text().splitlines()
        (tmp_path / "asked").unlink()
        return [line for line in lines if "describe" not in line]

    first = asked()
    assert SECRET in (tmp_path / "given").read_text()
    assert not any(SECRET in line for line in first)
    assert {"main.py", "Dockerfile", "schema.sql"} <= set((tmp_path / "built").read_text().split())
    assert sum(" create " in line for line in first) == 6
    (tmp_path / "made").touch()
    second = asked(DATABASE_URL="", SETTINGS="", ALERT_CHANNELS="")
    assert not any(" create " in line or "cloudsql" in line for line in second)
    for wanted in (
        "builds submit",
        "run jobs execute cronlease-migrate",
        "run deploy refresh-prices",
        "jobs update http",
    ):
        assert sum(wanted in line for line in second) == 1, wanted
