"""Check-ins of the function as it is deployed, and of the command line."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import JOBS, Serve
from tests.acceptance.shell import Shell
from tests.integration.conftest import Room
from tests.monitor import CheckedIn, Monitor, monitoring


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    with monitoring() as running:
        yield running


def test_a_hit_over_http_and_a_trigger_check_in(serve: Serve, room: Room, monitor: Monitor, tmp_path: Path) -> None:
    room.query("create table effect (request_id uuid)")
    served = serve(room.dsn, CRONLEASE_PING_URL=monitor.url("/{function}/"), no_proxy="127.0.0.1")
    ran = served.hit().json()
    assert served.hit().json()["reason"] == "not_due"
    failed = served.force(fail="no")
    shell = Shell(room.dsn, tmp_path)
    shell.environment |= {"CRONLEASE_PING_URL": monitor.url("/{function}/"), "no_proxy": "127.0.0.1"}
    triggered = json.loads(shell("trigger", "--source", str(JOBS), "--target", "tock", "--json")[1])
    assert monitor.asked == [
        CheckedIn("GET", "/tick/start", f"rid={ran['request_id']}", ""),
        CheckedIn("GET", "/tick", f"rid={ran['request_id']}", ""),
        CheckedIn("GET", "/tick/start", f"rid={failed['request_id']}", ""),
        CheckedIn("POST", "/tick/fail", f"rid={failed['request_id']}", "ValueError: no"),
        CheckedIn("GET", "/tock/start", f"rid={triggered['request_id']}", ""),
        CheckedIn("GET", "/tock", f"rid={triggered['request_id']}", ""),
    ]


def test_an_invalid_address_stops_startup_and_is_not_repeated(room: Room, tmp_path: Path) -> None:
    shell = Shell(room.dsn, tmp_path)
    shell.environment["CRONLEASE_PING_URL"] = "ftp://hc.example/k3y"
    status, out, err = shell("run-due")
    assert status == 1
    assert "CRONLEASE_PING_URL: it is not an address that starts with https:// or http://" in out + err
    assert "k3y" not in out + err
