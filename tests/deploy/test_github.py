"""What GitHub reads: each file against its published schema, and what the workflows may do."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.require import need, need_package

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
SCHEMAS = {
    "vendor.github-workflows": [*WORKFLOWS],
    "custom.github-workflows-require-timeout": [*WORKFLOWS],
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
    "vendor.github-issue-forms": [GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml" for name in ("bug", "feature")],
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
}


def read(file: Path) -> Any:
    need_package("yaml")
    return importlib.import_module("yaml").safe_load(file.read_text())


def uses(text: str) -> list[str]:
    return [line.split("uses:", 1)[1].strip() for line in text.splitlines() if re.match(r"\s*(- )?uses:", line)]


def unpinned(text: str) -> list[str]:
    """Actions of others that a tag or a branch could change; files of our own need no pin."""
    return [action for action in uses(text) if not action.startswith("./") and not PINNED.fullmatch(action)]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_file_obeys_its_published_schema(tmp_path: Path, schema: str) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("version: 3\njobs: {a: {steps: 7}}\nbody: []\ncontact_links: 7\n")
    check = [need("check-jsonschema"), "--builtin-schema", schema]
    ended = subprocess.run([*check, *map(str, SCHEMAS[schema])], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "ok -- validation done\n")
    assert subprocess.run([*check, str(wrong)], capture_output=True).returncode == 1


def test_every_action_is_pinned_by_its_commit() -> None:
    assert sum(len(uses(file.read_text())) for file in WORKFLOWS) >= 10
    assert [action for file in WORKFLOWS for action in unpinned(file.read_text())] == []
    for loose in ("actions/checkout@v6", "a/b@main # v1.2.3", f"a/b@{'a' * 39} # v1.2.3", f"a/b@{'a' * 40}"):
        assert unpinned(f"      - uses: {loose}\n") == [loose]


def test_one_version_of_an_action_is_used_everywhere() -> None:
    actions = {action for file in WORKFLOWS for action in uses(file.read_text()) if "@" in action}
    assert len(actions) == len({action.split("@")[0] for action in actions})


def test_only_the_job_that_publishes_may_write_and_it_runs_no_code_of_ours() -> None:
    writing = {}
    for file in WORKFLOWS:
        workflow = read(file)
        assert set(workflow["permissions"].items()) <= {("contents", "read")}
        for name, job in workflow["jobs"].items():
            granted = {key for key, value in job.get("permissions", {}).items() if value == "write"}
            if granted:
                writing[f"{file.stem}.{name}"] = granted
                assert not [step for step in job["steps"] if "run" in step or "checkout" in step["uses"]]
                assert job["environment"] == "pypi"
    assert writing == {"release.publish": {"id-token", "attestations"}}


def test_a_checkout_leaves_no_credentials_and_no_script_is_made_of_expressions() -> None:
    for file in WORKFLOWS:
        for job in read(file)["jobs"].values():
            for step in job.get("steps", []):
                assert "${{" not in step.get("run", "")
                if "checkout" in step.get("uses", ""):
                    assert step["with"]["persist-credentials"] is False


def test_ci_tests_every_version_that_the_package_names() -> None:
    matrix = read(GITHUB / "workflows" / "ci.yml")["jobs"]["tests"]["strategy"]["matrix"]
    classifiers = re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text())
    assert matrix["python"] == classifiers
    assert matrix["postgres"] == ["14", "15", "16", "17", "18"]


def test_what_checks_a_commit_is_one_script_for_all() -> None:
    hooks = read(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    checks = re.findall(r"^    (\w+)\) ", (ROOT / ".ci" / "check").read_text(), re.MULTILINE)
    assert [hook["entry"] for hook in hooks] == [f".ci/check {check}" for check in checks]
    steps = read(GITHUB / "workflows" / "ci.yml")["jobs"]["check"]["steps"]
    assert steps[-1] == {"run": ".ci/check"}
    assert re.search(r"^\.ci/check$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert ".ci/check" in (GITHUB / "CONTRIBUTING.md").read_text()


def test_a_check_that_does_not_exist_is_refused() -> None:
    ended = subprocess.run([ROOT / ".ci" / "check", "spelling"], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (2, "usage: .ci/check [format] [lint] [types] [imports]\n")


def test_a_release_needs_its_tag_its_date_and_its_address(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "releasable.py", tmp_path / ".ci")
    project, changelog = tmp_path / "pyproject.toml", tmp_path / "CHANGELOG.md"
    project.write_text('[project]\nversion = "1.2.3"\n')
    changelog.write_text("## [1.2.3] - unreleased\n")

    def lacks(tag: str) -> list[str]:
        asked = [sys.executable, str(tmp_path / ".ci" / "releasable.py"), tag, "https://forge.example/me/cronlease"]
        ended = subprocess.run(asked, capture_output=True, text=True)
        assert ended.returncode == (1 if ended.stderr else 0)
        return ended.stderr.splitlines()

    assert lacks("v1.2.4") == [
        "the tag is v1.2.4, but pyproject.toml has version 1.2.3",
        "CHANGELOG.md has no line '## [1.2.3] - <date>'",
        'pyproject.toml needs, under [project.urls], Repository = "https://forge.example/me/cronlease"',
    ]
    changelog.write_text("## [1.2.3] - 2026-12-01\n")
    project.write_text(f'{project.read_text()}[project.urls]\nRepository = "https://forge.example/me/cronlease"\n')
    assert lacks("v1.2.3") == []
