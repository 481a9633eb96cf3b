"""The guides of deploy/: their numbers and names are those of the files that they describe."""

import re
import tomllib

from tests.deploy.jobs import DEPLOY, definition
from tests.deploy.manifests import manifests
from tests.deploy.test_terraform import parsed, resources

TEXT = (DEPLOY / "README.md").read_text()
PRODUCTION = (DEPLOY / "production.md").read_text()


def made(cloud_sql: bool) -> int:
    """How many things Terraform makes."""
    many = {
        "${local.functions}": len(definition()["functions"]),
        "${local.jobs}": len(definition()["jobs"]),
        "${local.commands}": 1,  # migrate
        "${local.instances}": int(cloud_sql),
        "${local.secrets}": 0,
    }
    counts = {
        "${var.cloud_sql == null ? 0 : 1}": int(cloud_sql),
        '${var.migrate == "auto" ? 1 : 0}': 1,
        "${var.long_runs == null ? 0 : 1}": 0,
    }
    count = 0
    for kind, _, body in resources(parsed()):
        if kind == "google_project_service":
            always, optional = re.findall(r"\[([^][]*\.com[^][]*)\]", str(body["for_each"]).replace("[]", ""))
            count += always.count(".com") + cloud_sql * optional.count(".com")
        elif "count" in body:
            count += counts[body["count"]]
        else:
            count += many[body["for_each"]] if "for_each" in body else 1
    return count


def test_the_times_are_those_of_the_one_definition() -> None:
    (function,) = definition()["functions"].values()
    (deadline,) = {job["attempt_deadline"] for job in definition()["jobs"].values()}
    for name, value in {**function, "attempt_deadline": deadline}.items():
        assert f"| `{name}` | {value[:-1]} s |" in PRODUCTION


def test_terraform_makes_as_many_things_as_it_says() -> None:
    assert f"`Plan: {made(False)} to add, 0 to change, 0 to destroy.`" in TEXT
    assert f"Resources: {made(False)} added" in TEXT
    assert f"in place of the URL it is {made(True)}:" in re.sub(r"\s+", " ", TEXT)


def test_whatever_it_names_is_there() -> None:
    named = set(re.findall(r"\bdeploy/[\w./-]*\w", TEXT + PRODUCTION))
    assert len(named) >= 10
    assert [name for name in named if not (DEPLOY.parent / name).exists()] == []
    there = {f"{read['kind'].lower()}/{read['metadata']['name']}" for read in manifests()}
    asked_for = set(re.findall(r"\b(?:job|deployment|service)/[\w.-]*\w", TEXT))
    assert len(asked_for) == 4
    assert asked_for <= there
    version = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]["version"]
    assert set(re.findall(r"\bcronlease(?:/cronlease)?[:-](\d+\.\d+\.\d+)", TEXT)) == {version}
