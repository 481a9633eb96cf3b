"""One hit, never a storm: what a run starts cannot start another."""

from pathlib import Path

from tests.acceptance.conftest import Serve
from tests.acceptance.shell import ACTIONS, Shell
from tests.integration.conftest import Room


def test_a_run_that_spawns_run_due_spawns_one_process_and_that_one_skips(room: Room, tmp_path: Path) -> None:
    log = tmp_path / "storm.log"
    for name in ("first", "second"):
        room.query(f"select schedule_action('{name}', 'storm', '{{\"log\": \"{log}\"}}')")
    assert Shell(room.dsn, tmp_path).says("schedule", "run", "first").startswith("first: success in ")
    began, *said = log.read_text().splitlines()
    assert began == "a storm began"
    assert [line.partition(":")[0] for line in said] == ["run-due"]
    assert said[0].startswith("run-due: skipped, spawned")
    assert room.query("select function_name, status from refresh_runs") == [("first", "success")]
    assert room.query("select state, due from refresh_status where function_name = 'second'") == [("pending", True)]


def test_a_spawned_process_neither_loops_nor_runs(room: Room, tmp_path: Path) -> None:
    room.query("select schedule_action('a', 'note')")
    cronlease = Shell(room.dsn, tmp_path)
    cronlease.environment["CRONLEASE_SPAWNED"] = "whatever it says"
    assert cronlease.says_quickly("worker").startswith("worker: skipped, spawned: ")
    assert '"reason": "spawned"' in cronlease.says_quickly("schedule", "run", "a", "--json")
    assert room.query("select from refresh_runs") == []


def test_a_request_that_a_run_sends_is_skipped(room: Room, serve: Serve) -> None:
    room.query("select schedule_action('a', 'note')")
    served = serve(room.dsn, target="echo", source=ACTIONS)
    answer = served.hit(json={"args": {"url": served.url}}).json()
    assert answer["status"] == "success", answer
    assert answer["hint"] == "spawned spawned"
    assert room.query("select function_name from refresh_runs") == [("echo",)]


def test_a_request_whose_mark_is_empty_or_0_is_not_spawned(room: Room, serve: Serve) -> None:
    served = serve(room.dsn)
    room.query("create table effect (id uuid)")
    for mark, skipped in (("", False), ("0", False), ("1", True)):
        answer = served.hit(json={"force": True}, headers={"X-Cronlease-Spawned": mark}).json()
        assert answer["skipped"] is skipped, answer
