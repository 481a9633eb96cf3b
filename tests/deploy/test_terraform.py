"""The Terraform as far as it can be checked offline: its format, its variables, and every argument against the
provider's own schema. What only `terraform apply` can tell is said in deploy/README.md."""

import importlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.jobs import DEPLOY, definition
from tests.deploy.provider import PACKAGE, Block, Resource, resource
from tests.require import need, need_package

FOLDER = DEPLOY / "cloudrun"
META = {"for_each", "count", "depends_on", "lifecycle", "provider"}
Body = dict[str, Any]


def parsed(text: str | None = None) -> Body:
    """All files as one; names without the quotes the parser leaves on them."""
    need_package("hcl2")
    hcl2 = importlib.import_module("hcl2")
    joined: Body = {}
    for source in [text] if text else [file.read_text() for file in sorted(FOLDER.glob("*.tf"))]:
        for kind, found in _plain(hcl2.loads(source)).items():
            joined.setdefault(kind, []).extend(found)
    return joined


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key.strip('"'): _plain(inner) for key, inner in value.items() if not key.startswith("__")}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.strip('"') if isinstance(value, str) else value


def resources(read: Body) -> Iterator[tuple[str, str, Body]]:
    for entry in read.get("resource", []):
        for kind, named in entry.items():
            for name, body in named.items():
                yield kind, name, body


def argument_problems(body: Body, block: Block, known: Resource, where: str) -> Iterator[str]:
    """Unknown and missing arguments, all the way down."""
    inner = [(name, item) for name, items in body.items() if name in block.blocks for item in items]
    for dynamic in body.get("dynamic", []):
        inner += [(name, content) for name, made in dynamic.items() for content in made["content"]]
    given = {name for name in body if name != "dynamic"} | {name for name, _ in inner}
    yield from (f"{where}: no argument {name}" for name in sorted(given - block.arguments - META))
    yield from (f"{where}: {name} is missing" for name in sorted(block.required - given))
    for name, item in inner:
        if name in block.blocks and isinstance(item, dict):
            yield from argument_problems(item, known.classes[block.blocks[name]], known, f"{where}.{name}")


def problems(read: Body) -> list[str]:
    package = need_package(PACKAGE)
    found = []
    kinds: dict[tuple[str, str], Resource] = {}
    for kind, name, body in resources(read):
        if kind == "terraform_data":  # Terraform's own
            continue
        known = resource(package, kind)
        if known is None:
            found.append(f"{kind}: the provider has no such resource")
            continue
        kinds[kind, name] = known
        found += argument_problems(body, known.top, known, f"{kind}.{name}")
    for kind, name, attribute in re.findall(r"\b(google_\w+)\.(\w+)(?:\[[^]]*\])?(?:\.(\w+))?", json.dumps(read)):
        exported = kinds.get((kind, name))
        if exported is None:
            found.append(f"{kind}.{name} is used and not declared")
        elif attribute and attribute not in exported.attributes:
            found.append(f"{kind}.{name} exports no {attribute}")
    return found


def test_every_argument_is_one_of_the_provider_s() -> None:
    read = parsed()
    assert {kind for kind, _, _ in resources(read)} >= {"google_cloud_run_v2_service", "google_cloud_scheduler_job"}
    assert problems(read) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('resource "google_cloud_scheduler_job" "hit" {\n schedul = "x"\n name = "x"\n}', "no argument schedul"),
        ('resource "google_cloud_scheduler_job" "hit" {\n schedule = "x"\n}', "name is missing"),
        ('resource "google_cloud_scheduler_jobb" "hit" {\n name = "x"\n}', "no such resource"),
        (
            'resource "google_cloud_scheduler_job" "hit" {\n name = "x"\n http_target {\n uri = "x"\n oidc_token {\n'
            ' audience = "x"\n }\n }\n}',
            "http_target.oidc_token: service_account_email is missing",
        ),
        (
            'resource "google_cloud_scheduler_job" "hit" {\n name = google_service_account.nobody.email\n}',
            "google_service_account.nobody is used and not declared",
        ),
        (
            'resource "google_service_account" "a" {\n account_id = google_service_account.a.mail\n}',
            "google_service_account.a exports no mail",
        ),
    ],
)
def test_what_the_provider_would_refuse_is_found(text: str, said: str) -> None:
    assert any(said in problem for problem in problems(parsed(text)))


def test_variables_and_locals_are_declared_used_and_described() -> None:
    read = parsed()
    text = "".join(file.read_text() for file in FOLDER.glob("*.tf"))
    variables = {name: body for entry in read["variable"] for name, body in entry.items()}
    outputs = {name: body for entry in read["output"] for name, body in entry.items()}
    local_names = {name for entry in read["locals"] for name in entry}
    assert set(re.findall(r"\bvar\.(\w+)", text)) == set(variables)
    assert set(re.findall(r"\blocal\.(\w+)", text)) == local_names
    assert all(body.get("description") for body in [*variables.values(), *outputs.values()])
    assert {name for name, body in variables.items() if not body.get("validation")} == {"deletion_protection"}


def test_the_schema_is_applied_before_the_functions_are_replaced() -> None:
    found = {(kind, name): body for kind, name, body in resources(parsed())}
    assert "${terraform_data.migrated}" in found["google_cloud_run_v2_service", "function"]["depends_on"]
    migrated = found["terraform_data", "migrated"]
    assert "var.image" in str(migrated["triggers_replace"])
    assert "/schema.sql" in str(migrated["triggers_replace"])
    (ran,) = migrated["provisioner"]
    assert 'google_cloud_run_v2_job.command["migrate"].name' in str(ran)
    assert "--wait" in str(ran)


def test_nothing_depends_on_itself() -> None:
    """By whole resources, as `terraform plan` would say; locals are looked into."""
    read = parsed()
    values = {name: json.dumps(value) for entry in read["locals"] for name, value in entry.items()}

    def inside(text: str) -> str:
        while (more := re.sub(r"\blocal\.(\w+)", lambda found: values[found[1]], text)) != text:
            text = more
        return text

    edges = {}
    for kind, name, body in resources(read):
        found = re.findall(r"\b((?:google|terraform)_\w+)\.(\w+)", inside(json.dumps(body)))
        edges[f"{kind}.{name}"] = {f"{other}.{called}" for other, called in found}
    assert len(edges) > 15
    list(TopologicalSorter(edges).static_order())


def test_the_scheduler_proves_who_it_is_to_the_service_itself() -> None:
    jobs = {name: body for kind, name, body in resources(parsed()) if kind == "google_cloud_scheduler_job"}
    job = jobs["hit"]
    (started,) = jobs["long_runs"]["http_target"]
    assert started["oauth_token"][0]["service_account_email"] == "${google_service_account.scheduler.email}"
    assert job["paused"] == "${var.long_runs != null}"
    (target,) = job["http_target"]
    (token,) = target["oidc_token"]
    assert token["audience"] == "${google_cloud_run_v2_service.function[each.value.function].uri}"
    assert token["service_account_email"] == "${google_service_account.scheduler.email}"


def test_each_account_has_only_what_it_needs() -> None:
    granted = {
        (body["role"], re.search(r"google_service_account\.(\w+)", body["member"])[1])  # type: ignore[index]
        for kind, _, body in resources(parsed())
        if "_iam_" in kind
    }
    assert granted == {
        ("roles/secretmanager.secretAccessor", "function"),
        ("roles/cloudsql.client", "function"),
        ("roles/run.invoker", "scheduler"),
    }


def test_it_is_formatted() -> None:
    terraform = need("terraform")
    ended = subprocess.run([terraform, "fmt", "-check", "-diff", str(FOLDER)], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "")


def evaluated(tmp_path: Path, expression: str, **variables: object) -> subprocess.CompletedProcess[str]:
    """What Terraform itself makes of the variables and of jobs.json; without a resource it needs no provider."""
    folder, staged = tmp_path / "cloudrun", tmp_path / "staged"
    folder.mkdir()
    staged.mkdir()
    (staged / "jobs.json").write_text(json.dumps(definition() | {"environment": {"A": "1", "B": "2"}}))
    (staged / "schema.sql").touch()
    for name in ("variables.tf", "jobs.tf"):
        shutil.copy(FOLDER / name, folder)
    (folder / "given.auto.tfvars.json").write_text(json.dumps({"folder": str(staged), **variables}))
    return subprocess.run(
        [need("terraform"), "console", "-no-color"], cwd=folder, input=expression, capture_output=True, text=True
    )


GIVEN = {
    "project": "my-project",
    "image": "europe-docker.pkg.dev/p/r/cronlease:1",
    "database_url": "postgresql://h/d",
}


def test_terraform_reads_the_one_definition(tmp_path: Path) -> None:
    asked = "jsonencode([local.functions, local.jobs, local.service_names, local.environment, local.commands])"
    ended = evaluated(tmp_path, asked, **GIVEN, environment={"B": "3"}, long_runs={"timeout": 7200})
    functions, jobs, names, environment, commands = json.loads(json.loads(ended.stdout))
    assert (functions, jobs) == (definition()["functions"], definition()["jobs"])
    assert names == {"refresh_opening_signals": "refresh-opening-signals"}
    assert environment == {"A": "1", "B": "3"}
    assert {name: (command["args"], command["timeout"]) for name, command in commands.items()} == {
        "migrate": (["migrate", "--setup", "schema.sql"], 600),
        "run-due": (["run-due", "--json"], 7200),
    }


def test_terraform_makes_no_job_that_nobody_asked_for(tmp_path: Path) -> None:
    ended = evaluated(tmp_path, "jsonencode(keys(local.commands))", **GIVEN, migrate="never")
    assert json.loads(json.loads(ended.stdout)) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"project": "My Project"}, "a project's ID"),
        ({"region": "europe-west1-b"}, "not a zone"),
        ({"image": "cronlease"}, "a tag or a digest"),
        ({"database_url": "mysql://h/d"}, "begins with postgresql://"),
        ({"folder": "nowhere"}, "made by deploy/stage.sh"),
        ({"name": "My Name"}, "2 to 20 lower-case letters"),
        ({"cloud_sql_connection": "db"}, "PROJECT:REGION:INSTANCE"),
        ({"cloud_sql_connection": "a:b:c"}, "postgresql://USER:PASSWORD@/DATABASE?host=/cloudsql/"),
        ({"network": {"network": "n", "subnetwork": ""}}, "a network and a subnetwork"),
        ({"long_runs": {"timeout": 5}}, "from 100 to 604800"),
        ({"cloud_sql": {}, "database_password": "short"}, "16 characters"),
        ({"cloud_sql": {"version": "POSTGRES_13"}, "database_password": "0123456789abcdef"}, "POSTGRES_14"),
        ({"environment": {"CRONLEASE_LEASE": "5m"}}, "set elsewhere"),
        ({"alert_channels": ["me@example.com"]}, "notificationChannels/123"),
    ],
)
def test_a_variable_that_cannot_be_right_is_refused(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    ended = evaluated(tmp_path, "1", **{**GIVEN, **wrong})
    assert said in re.sub(r"\s*\n[│ ]*", " ", ended.stderr + ended.stdout)
