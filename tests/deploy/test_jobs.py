"""A jobs.json: its schema, and numbers that fit each other, the settings' rules and the platform's limits."""

import ast
import copy
import importlib
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import pytest

from cronlease.cadence import duration
from cronlease.settings import Settings, load
from tests.deploy.jobs import DEPLOY, SHIPPED, TEMPLATE, definition
from tests.require import need_package

# What Cloud Run and Cloud Scheduler accept, and when a container that was asked to end is killed.
LONGEST_REQUEST = timedelta(hours=1)
ATTEMPT_DEADLINES = timedelta(seconds=15), timedelta(minutes=30)
KILLED_AFTER = timedelta(seconds=10)
FOLDERS = pytest.mark.parametrize("folder", [SHIPPED, TEMPLATE], ids=["shipped", "init"])


def problems(read: dict[str, Any]) -> list[str]:
    """Every sentence about numbers that cannot hold together."""
    found = []
    for name, function in read["functions"].items():
        settings = load({"CRONLEASE_LEASE": function["lease"], "CRONLEASE_MAX_RUN": function["max_run"]})
        limits, timeout = settings.limits(), duration(function["request_timeout"])
        if not limits.acquire < limits.max_run < timeout <= LONGEST_REQUEST:
            found.append(f"{name}: acquire < max_run < request_timeout <= 1h does not hold")
        if limits.lease > timeout:
            found.append(f"{name}: a run that was killed is not replaced before its lease ends, yet it had less time")
    for name, job in read["jobs"].items():
        function = read["functions"].get(job["function"])
        if function is None:
            found.append(f"{name}: there is no function {job['function']}")
            continue
        deadline = duration(job["attempt_deadline"])
        if not ATTEMPT_DEADLINES[0] <= deadline <= ATTEMPT_DEADLINES[1]:
            found.append(f"{name}: attempt_deadline is not from 15s to 30m")
        if deadline < duration(function["request_timeout"]):
            found.append(f"{name}: attempt_deadline is shorter than request_timeout")
        if int(job["retry"]["min_backoff"][:-1]) > int(job["retry"]["max_backoff"][:-1]):
            found.append(f"{name}: min_backoff is longer than max_backoff")
        if job["time_zone"] not in available_timezones():
            found.append(f"{name}: there is no time zone {job['time_zone']}")
    return found


@FOLDERS
def test_the_definition_obeys_its_schema(folder: Path) -> None:
    need_package("jsonschema")
    jsonschema = importlib.import_module("jsonschema")
    schema = json.loads((DEPLOY / "jobs.schema.json").read_text())
    checker = jsonschema.Draft202012Validator(schema)
    checker.check_schema(schema)
    assert [error.message for error in checker.iter_errors(definition(folder))] == []
    wrong = definition(folder)
    next(iter(wrong["jobs"].values()))["attempt_deadline"] = "5m"
    next(iter(wrong["functions"].values()))["leese"] = "300s"
    wrong["environment"] = {"CRONLEASE_EVERY": "5m", "CRONLEASE_LEASE": "5m"}
    assert len(list(checker.iter_errors(wrong))) == 3


def test_the_schema_refuses_what_staging_refuses() -> None:
    from folder import RESERVED

    schema = json.loads((DEPLOY / "jobs.schema.json").read_text())
    assert set(schema["properties"]["environment"]["propertyNames"]["not"]["enum"]) == RESERVED


@FOLDERS
def test_its_numbers_fit_each_other_and_the_settings_rules(folder: Path) -> None:
    assert problems(definition(folder)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda read: read["functions"]["refresh_opening_signals"].update(max_run="300s"), "max_run"),
        (lambda read: read["functions"]["refresh_opening_signals"].update(lease="900s"), "lease"),
        (lambda read: read["jobs"]["run-due"].update(attempt_deadline="290s"), "shorter than request_timeout"),
        (lambda read: read["jobs"]["run-due"].update(attempt_deadline="1801s"), "from 15s to 30m"),
        (lambda read: read["jobs"]["run-due"].update(function="nobody"), "no function"),
        (lambda read: read["jobs"]["run-due"].update(time_zone="Mars/Base"), "no time zone"),
    ],
)
def test_numbers_that_do_not_fit_are_found(change: Callable[[dict[str, Any]], None], said: str) -> None:
    read = copy.deepcopy(definition())
    change(read)
    assert any(said in problem for problem in problems(read))


@FOLDERS
def test_every_function_is_declared_in_main(folder: Path) -> None:
    tree = ast.parse((folder / "main.py").read_text())
    declared = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    assert set(definition(folder)["functions"]) <= declared


def test_the_drain_ends_before_the_platform_kills() -> None:
    from cronlease.process import shutdown

    drain = Settings().drain_seconds + shutdown._LAST_WORDS_SECONDS
    assert timedelta(seconds=drain) < KILLED_AFTER
