"""compose.yaml: against the published schema, and with the numbers of the one definition."""

import importlib
import subprocess
from pathlib import Path

from tests.deploy.jobs import DEPLOY, definition
from tests.require import need, need_package

FILE = DEPLOY / "compose.yaml"


def test_it_obeys_the_published_schema(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(FILE.read_text().replace("read_only", "readonly"))
    check = [need("check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    ended = [subprocess.run([*check, str(file)], capture_output=True).returncode for file in (FILE, wrong)]
    assert ended == [0, 1]


def test_its_numbers_are_those_of_the_one_definition() -> None:
    need_package("yaml")
    services = importlib.import_module("yaml").safe_load(FILE.read_text())["services"]
    (function,) = definition()["functions"].values()
    for name in ("migrate", "worker", "function"):
        settings = services[name]["environment"]
        assert (settings["CRONLEASE_LEASE"], settings["CRONLEASE_MAX_RUN"]) == (
            function["lease"],
            function["max_run"],
        )
