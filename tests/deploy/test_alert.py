"""The alert on runs that fail or cannot start: it looks for lines that are really logged, and every way makes it."""

import io
import json
import logging
import re
import shlex
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from cronlease.observe import logs
from cronlease.outcome import FailReason
from cronlease.run.attempt import log_unreadable
from cronlease.run.finish import _ACTIONS
from tests.deploy.jobs import DEPLOY
from tests.deploy.test_scripts import ENVIRONMENT, deploy, flags
from tests.deploy.test_terraform import parsed, resources

POLICY = json.loads((DEPLOY / "alert.json").read_text())
FILTER = POLICY["conditions"][0]["conditionMatchedLog"]["filter"]
SEVERITIES = ["DEBUG", "INFO", "WARNING", "ERROR"]


def matches(line: dict[str, Any]) -> bool:
    """As Cloud Logging reads the filter; a kind of comparison that is not known here fails."""
    for comparison in FILTER.split(" AND "):
        if least := re.fullmatch(r"severity>=(\w+)", comparison):
            if SEVERITIES.index(line["severity"]) < SEVERITIES.index(least[1]):
                return False
            continue
        field = re.fullmatch(r'jsonPayload\.(\w+)=\(("\w+"(?: OR "\w+")*)\)', comparison)
        assert field, comparison
        if line.get(field[1]) not in re.findall(r"\w+(?=\")", field[2]):
            return False
    return True


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logs.OurHandler(stream)
    handler.setFormatter(logs.JsonFormatter())
    monkeypatch.setattr(logs.logger, "handlers", [handler])
    # Not by an attribute: the logger remembers which levels are enabled until this is called.
    before = logs.logger.level
    logs.logger.setLevel(logging.DEBUG)
    yield stream
    logs.logger.setLevel(before)


def test_it_finds_a_schedule_that_cannot_be_read_and_no_other_skip(stream: io.StringIO) -> None:
    log_unreadable("tick", uuid4(), "no database")
    logs.log(logging.INFO, "Skipped tick: locked", action="run_skipped", reason="locked", function="tick")
    assert [matches(json.loads(line)) for line in stream.getvalue().splitlines()] == [True, False]


def test_it_finds_every_run_that_failed_and_none_that_another_follows() -> None:
    """A 500 is retried by the scheduler and then skipped with 200: nothing else would show it."""
    found = {reason for reason, action in _ACTIONS.items() if matches({"severity": "ERROR", "action": action})}
    assert found == {FailReason.FAILED, FailReason.DEADLINE, FailReason.COMMIT_UNKNOWN}


def test_the_policy_is_one_that_cloud_monitoring_takes() -> None:
    """What its reference asks of a policy on log lines."""
    assert {"displayName", "combiner", "conditions", "alertStrategy"} <= POLICY.keys()
    assert "notificationRateLimit" in POLICY["alertStrategy"]
    assert int(POLICY["alertStrategy"]["autoClose"].removesuffix("s")) >= 1800
    assert POLICY["severity"] in ("CRITICAL", "ERROR", "WARNING")


def test_every_way_makes_it() -> None:
    (made,) = [body for kind, _, body in resources(parsed()) if kind == "google_monitoring_alert_policy"]
    assert made["notification_channels"] == "${var.alert_channels}"
    (alert,) = [entry["alert"] for entry in parsed()["locals"] if "alert" in entry]
    assert "../alert.json" in alert
    commands = [shlex.split(line) for line in deploy().stdout.splitlines()]
    (command,) = [command for command in commands if command[1:5] == ["alpha", "monitoring", "policies", "create"]]
    given = flags(command)
    assert given["policy-from-file"] == str(DEPLOY / "alert.json")
    assert given["notification-channels"] == ENVIRONMENT["ALERT_CHANNELS"]
    assert FILTER in (DEPLOY / "production.md").read_text()
