"""The folders that are deployed, as the tests read them: the shipped one, and the one that `cronlease init` makes."""

import json
from pathlib import Path
from typing import Any

from cronlease.cli.commands import init

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SHIPPED = ROOT / "functions"
TEMPLATE = Path(init.__file__).with_name("project")


def definition(folder: Path = SHIPPED) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "jobs.json").read_text())
    return read
