"""deploy/kubernetes as the tests read it."""

import importlib
from typing import Any

from tests.deploy.jobs import DEPLOY
from tests.require import need_package

Manifest = dict[str, Any]


def manifests() -> list[Manifest]:
    need_package("yaml")
    yaml = importlib.import_module("yaml")
    texts = [file.read_text() for file in sorted((DEPLOY / "kubernetes").glob("*.yaml"))]
    return [found for text in texts for found in yaml.safe_load_all(text)]


def pods() -> dict[str, Manifest]:
    """The pod specs by the names of their owners."""
    found = {}
    for manifest in manifests():
        spec = manifest.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            found[manifest["metadata"]["name"]] = spec["template"]["spec"]
    return found


def one(kind: str, name: str) -> Manifest:
    (found,) = [read for read in manifests() if (read["kind"], read["metadata"]["name"]) == (kind, name)]
    return found
