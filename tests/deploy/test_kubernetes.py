"""The Kubernetes manifests: against the published schemas, and against what the program itself needs."""

import importlib
import tomllib

import pytest

from cronlease.process import shutdown
from cronlease.settings import Settings, load
from tests.deploy.jobs import DEPLOY, definition
from tests.deploy.manifests import manifests, one, pods
from tests.require import need_package

# The first version whose preStop can sleep without a shell.
OLDEST = "1.30"
NEWEST = "1.37"


def test_the_manifests_obey_the_strict_schemas_of_the_oldest_and_the_newest_version() -> None:
    need_package("kubernetes_validate")
    check = importlib.import_module("kubernetes_validate")
    read = manifests()
    assert len(read) >= 6
    for manifest in read:
        for version in (OLDEST, NEWEST):
            check.validate(manifest, version, strict=True)
    wrong = one("Deployment", "cronlease-worker")
    wrong["spec"]["template"]["spec"]["terminationGraceSeconds"] = 15
    with pytest.raises(check.ValidationError):
        check.validate(wrong, NEWEST, strict=True)


def test_every_pod_is_unprivileged_and_writes_only_to_its_own_tmp() -> None:
    for name, pod in pods().items():
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        (container,) = pod["containers"]
        context = container["securityContext"]
        assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True), name
        assert context["capabilities"] == {"drop": ["ALL"]}, name
        assert {mount["mountPath"] for mount in container["volumeMounts"]} >= {"/tmp"}, name


def test_a_pod_is_given_the_time_its_drain_takes() -> None:
    drain = Settings().drain_seconds + shutdown._LAST_WORDS_SECONDS
    for name, pod in pods().items():
        if name.startswith("cronlease-migrate"):
            continue  # one transaction: whoever ends it takes nothing from anybody
        (container,) = pod["containers"]
        pause = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        assert pod["terminationGracePeriodSeconds"] >= pause + drain + 2, name


def test_the_function_is_probed_where_it_answers() -> None:
    (container,) = pods()["cronlease-function"]["containers"]
    probed = {
        kind: container[kind]["httpGet"]["path"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert probed == {
        "startupProbe": "/health/live",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }


def test_the_image_is_the_one_of_this_version() -> None:
    version = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]["version"]
    assert {pod["containers"][0]["image"] for pod in pods().values()} == {f"cronlease:{version}"}
    # A finished job cannot be changed: each version migrates by one of its own.
    assert one("Job", f"cronlease-migrate-{version}")
    assert f"image: cronlease:{version}\n" in (DEPLOY / "compose.yaml").read_text()


def test_callers_of_the_function_have_to_show_a_token() -> None:
    (container,) = pods()["cronlease-function"]["containers"]
    auth, token = container["env"]
    assert auth == {"name": "CRONLEASE_AUTH", "value": "token"}
    assert token["name"] == "CRONLEASE_TOKEN"
    assert load({"CRONLEASE_AUTH": auth["value"], token["name"]: "0" * 64, "DATABASE_URL": "x", "K_SERVICE": "f"})


def test_the_numbers_are_those_of_the_one_definition() -> None:
    (function,) = definition()["functions"].values()
    # The image has the rest, whatever folder it was made from.
    assert set(one("ConfigMap", "cronlease")["data"]) == {"CRONLEASE_AUTH", "CRONLEASE_MIGRATE"}
    job, spec = definition()["jobs"]["run-due"], one("CronJob", "cronlease-run-due")["spec"]
    assert (spec["schedule"], spec["timeZone"]) == (job["schedule"], job["time_zone"])
    assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] > int(function["max_run"][:-1]) + 10
