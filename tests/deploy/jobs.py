"""deploy/jobs.json as the tests read it."""

import json
from pathlib import Path
from typing import Any

DEPLOY = Path(__file__).parents[2] / "deploy"


def definition() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((DEPLOY / "jobs.json").read_text())
    return read
