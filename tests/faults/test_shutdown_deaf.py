"""A process stops although its job does not: the end of its run is written in time, and nobody waits for it."""

import re
import signal
import time
from pathlib import Path

import pytest

from tests.faults.processes import serving_as
from tests.faults.profile import thorough
from tests.faults.scene import Hit
from tests.integration.conftest import Room, wait_until

pytestmark = pytest.mark.thorough

SOURCE = Path(__file__).with_name("hung.py")
NAMES = re.findall(r"@scheduled\n(?:async )?def (\w+)", SOURCE.read_text())
DRAIN_SECONDS = 1.0
# As the guide of deploy/ says; a second more for a slow machine.
LAST_WORDS_SECONDS = 3.0 + 1.0


@pytest.fixture
def room(dsn: str) -> Room:
    room = Room(dsn)
    room.query("create table effect (function_name text, request_id uuid)")
    return room


def schedule(room: Room, name: str) -> None:
    """That function alone is due, and will hang."""
    for each in NAMES:
        room.query(f"select ensure_schedule('{each}')")
    room.query("update refresh_schedule set next_run_at = clock_timestamp() + interval '1 day'")
    room.query(
        f"update refresh_schedule set next_run_at = null, args = '{{\"hang\": true}}' where function_name = '{name}'"
    )


def held(room: Room, name: str) -> bool:
    return bool(
        room.query(f"select 1 from refresh_schedule where function_name = '{name}' and locked_by is not null")
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("functions-framework", "sleeps"),
        ("worker", "refuses"),
        ("run-due", "sleeps"),
        thorough("uvicorn", "refuses"),
        thorough("worker", "sleeps"),
        thorough("functions-framework", "holds"),
        thorough("worker", "queries"),
        thorough("worker", "insists"),
    ],
)
def test_a_run_that_does_not_listen_is_interrupted_in_time(room: Room, tmp_path: Path, kind: str, name: str) -> None:
    """With the usual lease: a third of it is longer than a process has."""
    schedule(room, name)
    environment = {
        "DATABASE_URL": room.dsn,
        "CRONLEASE_DRAIN_SECONDS": str(DRAIN_SECONDS),
        "CRONLEASE_DATA_DIR": str(tmp_path),
    }
    with serving_as(kind, SOURCE, name, tmp_path / "log", **environment) as served:
        if served.url:
            Hit(served)
        wait_until(lambda: held(room, name), 30)
        served.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        wait_until(lambda: not held(room, name), 20)
        took = time.monotonic() - began
        wait_until(lambda: served.process.poll() is not None, 20)
        ended = time.monotonic() - began
    assert room.runs() == ["interrupted"]
    assert room.query("select 1 from effect") == []
    assert took <= DRAIN_SECONDS + LAST_WORDS_SECONDS
    assert ended <= DRAIN_SECONDS + LAST_WORDS_SECONDS + 2, served.log_file.read_text()
    if kind == "worker":
        assert served.process.returncode == 0


@pytest.mark.parametrize("name", ["refuses", thorough("delegates"), thorough("holds")])
def test_what_a_job_leaves_behind_does_not_keep_run_due_alive(room: Room, tmp_path: Path, name: str) -> None:
    schedule(room, name)
    environment = {
        "DATABASE_URL": room.dsn,
        "CRONLEASE_LEASE": "3s",
        "CRONLEASE_MAX_RUN": "1s",
        "CRONLEASE_DATA_DIR": str(tmp_path),
    }
    with serving_as("run-due", SOURCE, name, tmp_path / "log", **environment) as served:
        assert served.process.wait(20) == 1
    assert "1 failed" in served.log_file.read_text()
    assert room.runs() == ["failed"]
    assert room.query("select 1 from effect") == []
