"""Schedules from the command line: made, run, paused, unlocked and explained by real processes."""

import json
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cronlease.registry import load_source
from tests.acceptance.shell import Shell
from tests.integration.conftest import Room, wait_until

GATED = """
import asyncio
from pathlib import Path

from cronlease import Run, scheduled


async def wait(run: Run) -> None:
    Path(run.args["gate"]).touch()
    while Path(run.args["gate"]).exists():
        await asyncio.sleep(0.02)


@scheduled
async def gated1(run: Run) -> None:
    await wait(run)


@scheduled
async def gated2(run: Run) -> None:
    await wait(run)
"""


@pytest.fixture
def cronlease(dsn: str, tmp_path: Path) -> Shell:
    return Shell(dsn, tmp_path)


def schedule(room: Room, name: str, **args: str) -> None:
    room.query(f"select schedule_action('{name}', 'note', '{json.dumps(args)}')")


def statuses(room: Room, name: str) -> list[str]:
    return [row[0] for row in room.query(f"select status from refresh_runs where function_name = '{name}'")]


def test_a_one_shot_goes_from_pending_to_completed_on_an_empty_database(empty_dsn: str, tmp_path: Path) -> None:
    cronlease = Shell(empty_dsn, tmp_path)
    create = ("schedule", "create", "greet", "--action", "note", "--in", "0d", "--args", '{"n": 1}')
    assert cronlease.says(*create) == '"greet" is scheduled, due now\n'
    (row,) = json.loads(cronlease.says_quickly("schedule", "list", "--json"))
    assert [row[name] for name in ("function_name", "state", "due", "once")] == ["greet", "pending", True, True]
    # The source's own function has its row made, and fails: nobody gave it a URL.
    status, out, err = cronlease("run-due")
    assert status == 1
    first, second, summary = out.splitlines()
    assert first.startswith("greet: success in ")
    assert first.endswith(" s, fetched 1")
    assert second.startswith("echo: failed in ")
    assert summary == "1 ran, 1 failed, 0 still due"
    assert [json.loads(line)["action"] for line in err.splitlines()] == ["run_failed"]
    shown = cronlease.says_quickly("schedule", "list").splitlines()
    assert shown[-1].split() == ["greet", "completed", "note", "once", "1", "success", "completed"]
    status, out, err = cronlease(*create)
    assert (status, out) == (1, "")
    assert err == 'Error: there is already a schedule named "greet": --replace puts this one in its place\n'


def test_a_failing_action_is_pending_again_after_a_backoff(cronlease: Shell, room: Room) -> None:
    schedule(room, "bad", fail="boom \x1b[2J")
    status, out, _ = cronlease("schedule", "run", "bad", "--json")
    assert (status, json.loads(out)["reason"]) == (1, "failed")
    assert room.query("select state, failures from refresh_status") == [("pending", 1)]
    what, last, then = cronlease.says_quickly("explain", "bad").splitlines()
    assert what == '"bad" runs the action "note" once.'
    assert last.endswith(": ValueError: boom ?[2J.")
    assert "backoff after failing once; `cronlease schedule run bad --force` runs it now." in then


def test_a_paused_schedule_does_not_run_until_it_is_resumed(cronlease: Shell, room: Room) -> None:
    schedule(room, "a")
    assert cronlease.says_quickly("schedule", "pause", "a", "--reason", "the feed is down") == '"a" is paused\n'
    assert cronlease.says_quickly("schedule", "pause", "a") == '"a" was paused already\n'
    said = cronlease.says_quickly("schedule", "pause", "a", "--reason", "moving\x07")
    assert said == '"a" was paused already, and the reason is now: moving?\n'
    assert room.query("select paused_reason from refresh_schedule") == [("moving\x07",)]
    said = cronlease.says("schedule", "run", "a", "--force")
    assert said == "a: skipped, paused\n  `cronlease schedule resume a` lets it run again\n"
    assert cronlease.says_quickly("schedule", "resume", "a") == '"a" is resumed, due now\n'
    large = '{"n": 12345678901234567890123, "x": 1.10, "y": 1e22}'
    told = json.loads(cronlease.says("schedule", "run", "a", "--args", large, "--json"))
    assert (told["status"], told["function"]) == ("success", "a")
    ((stored,),) = room.query(
        "select args ->> 'n' || ' ' || (args ->> 'x') || ' ' || (args ->> 'y') from refresh_runs"
    )
    assert stored == "12345678901234567890123 1.1 10000000000000000000000"


@pytest.mark.thorough
def test_an_open_breaker_is_shown_and_closed_by_hand(cronlease: Shell, room: Room) -> None:
    words = ("--every", "10m..15m", "--pause-after", "1", "--probe", "2h", "--late-alert", "3h")
    cronlease.says("schedule", "create", "bad", "--action", "note", *words)
    assert room.query("select pause_after, probe::text, late_alert::text from refresh_status") == [
        (1, "02:00:00", "03:00:00")
    ]
    room.query("update refresh_schedule set failures = 1, breaker_until = clock_timestamp() + interval '2 h'")
    room.query("update refresh_schedule set next_run_at = breaker_until")
    skipped, hint = cronlease.says("schedule", "run", "bad").splitlines()
    assert skipped.startswith("bad: skipped, breaker_open until 2")
    assert hint == "  `cronlease schedule resume bad` lets it run again"
    assert "breaker_open" in cronlease.says_quickly("status")
    assert "bad" in cronlease.says_quickly("schedule", "list", "--state", "breaker_open")
    assert "It is stopped by its breaker after failing once" in cronlease.says_quickly("explain", "bad")
    assert cronlease.says_quickly("schedule", "resume", "bad") == '"bad" is resumed, due now\n'
    said = cronlease.says_quickly("schedule", "resume", "bad")
    assert said == '"bad" was neither paused nor stopped by its breaker, due now\n'


@pytest.mark.thorough
def test_run_due_names_what_no_claim_takes(cronlease: Shell, room: Room) -> None:
    room.query("select schedule_action(name, 'note', p_every => '10m') from unnest(array['good', 'odd']) as name")
    room.query("update refresh_schedule set every = 'often' where function_name = 'odd'")
    room.query("select ensure_schedule('echo')")
    room.query("select pause_refresh('echo')")
    first, *said = cronlease.says("run-due").splitlines()
    assert first.startswith("good: success in ")
    assert said == [
        "1 ran, 0 failed, 0 still due",
        "These cannot run, their column every or cron holds no cadence: odd",
        "  `cronlease explain NAME` says how to fix it",
    ]
    told = json.loads(cronlease.says("run-due", "--json"))
    assert told["skipped"] == [{"function": "odd", "reason": "schedule_read_error"}]


def held(room: Room, name: str) -> str:
    request = str(uuid4())
    ((acquired,),) = room.query(f"select acquired from acquire_refresh_lock('{name}', '{request}')")
    assert acquired
    return request


def test_unlock_breaks_the_lease_it_showed_and_never_a_newer_one(cronlease: Shell, room: Room) -> None:
    schedule(room, "a")
    first = held(room, "a")
    with cronlease.start("schedule", "unlock", "a", stdin=subprocess.PIPE) as asking:
        assert asking.stderr is not None
        holder = asking.stderr.readline()
        assert holder.startswith(f"It is running now: request {first} has had the lease since 2")
        assert ", until 2" in holder
        room.query("select unlock_refresh('a')")
        second = held(room, "a")
        _, err = asking.communicate("y\n", timeout=30)
        assert asking.returncode == 1
        assert f'request {second} holds "a" by now: it was left alone' in err
    assert room.query("select locked_by from refresh_schedule") == [(second,)]
    assert json.loads(cronlease.says_quickly("schedule", "unlock", "a", "--yes", "--json"))["locked_by"] == second
    assert room.query("select state from refresh_status") == [("pending",)]
    assert statuses(room, "a") == ["abandoned", "abandoned"]


@pytest.mark.thorough
def test_a_second_run_due_on_this_machine_says_so_and_ends(cronlease: Shell, room: Room, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    schedule(room, "slow", linger=str(gate))
    room.query("select ensure_schedule('echo')")
    room.query("select pause_refresh('echo')")
    with cronlease.start("run-due", "--json") as first:
        wait_until(lambda: statuses(room, "slow") == ["running"], 30)
        assert cronlease.says("run-due") == "Schedule already running, skipping.\n"
        gate.unlink()
        out, err = first.communicate(timeout=30)
    assert (first.returncode, err) == (0, "")
    report = json.loads(out)
    assert [run["function"] for run in report["ran"]] == ["slow"]
    assert (report["ok"], report["remaining"]) == (True, 0)


def test_run_due_without_a_database_fails_and_keeps_the_password(tmp_path: Path) -> None:
    down = Shell("postgresql://user:opensesame@127.0.0.1:1/none", tmp_path)
    status, out, err = down("run-due")
    assert (status, out) == (1, "0 ran, 0 failed; then the schedule could not be read: the log says why\n")
    assert "check DATABASE_URL and that the server is up" in err
    assert "opensesame" not in err


def test_a_worker_runs_what_is_due_and_finishes_it_when_told_to_stop(
    cronlease: Shell, room: Room, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    schedule(room, "quick")
    schedule(room, "slow", linger=str(gate))
    room.query("select ensure_schedule('echo')")
    room.query("select pause_refresh('echo')")
    with cronlease.start("worker", "--json") as worker:
        wait_until(lambda: statuses(room, "slow") == ["running"], 30)
        assert statuses(room, "quick") == ["success"]
        worker.send_signal(signal.SIGTERM)
        schedule(room, "too-late")
        gate.unlink()
        out, _ = worker.communicate(timeout=30)
    assert worker.returncode == 0
    told = [json.loads(line) for line in out.splitlines()]
    assert [(run["function"], run["status"]) for run in told] == [("quick", "success"), ("slow", "success")]
    assert statuses(room, "slow") == ["success"]
    assert statuses(room, "too-late") == []


@pytest.mark.thorough
def test_without_a_configured_database_it_is_the_embedded_one_for_as_long_as_anybody_uses_it(
    place: Path, tmp_path: Path
) -> None:
    source, gates = tmp_path / "main.py", [tmp_path / "gate1", tmp_path / "gate2"]
    source.write_text(GATED)
    shell = Shell(None, place)

    def triggered(number: int) -> subprocess.Popen[str]:
        words = ("--target", f"gated{number + 1}", "--args", json.dumps({"gate": str(gates[number])}))
        process = shell.start("trigger", "--source", str(source), *words)
        wait_until(gates[number].exists, 30)
        return process

    with ExitStack() as stack:
        owner, guest = stack.enter_context(triggered(0)), stack.enter_context(triggered(1))
        stack.callback(gates[1].unlink, missing_ok=True)
        gates[0].unlink()
        assert owner.stdout
        assert owner.stdout.readline().startswith("gated1: success")
        assert owner.stderr
        assert owner.stderr.readline().startswith("source: ")
        assert "another cronlease still uses the embedded PostgreSQL" in owner.stderr.readline()
        create = ("schedule", "create", "a", "--action", "note", "--at", "2036-12-24T18:00+01:00", "--json")
        told = json.loads(shell.says(*create))
        assert told == {"function": "a", "next_run_at": "2036-12-24T17:00:00+00:00"}
        gates[1].unlink()
        assert guest.communicate(timeout=30)[0].startswith("gated2: success")
        assert owner.wait(30) == 0


def refused(dsn: str, *words: str) -> tuple[int, str]:
    """The exit status and the last line of a verb that cannot do it."""
    status, _, err = Shell(dsn, Path("nowhere")).quickly(*words)
    return status, err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["explain", "refersh"], 1, 'there is no schedule named "refersh": did you mean "refresh"?'),
        (["schedule", "pause", "xyz"], 1, "`cronlease schedule list` lists them"),
        (["schedule", "delete", "refersh", "--yes"], 1, 'did you mean "refresh"?'),
        (["schedule", "create", "b", "--action", "note", "--at", "2026-12-24 18:00"], 2, "has no time zone"),
        (
            ["schedule", "create", "b", "--action", "note", "--in", "1d", "--at", "2026-12-24T18:00Z"],
            2,
            "not with both",
        ),
        (["schedule", "create", "b", "--action", "note", "--every", "often"], 2, "'often' is not a duration"),
        (["schedule", "create", "b", "--action", "note", "--args", "[]"], 2, "not a JSON object"),
        (
            ["schedule", "create", "b", "--action", "note", "--args", '{"a": ["\\u0000"]}'],
            2,
            "'--args': text with a NUL",
        ),
        (["schedule", "run", "b", "--args", '{"\\ud800": 1}'], 2, "'--args': text with a NUL or half a character"),
        (["trigger", "--args", '{"a": NaN}'], 2, "'--args': not JSON (NaN is not JSON)"),
        (["trigger", "--args", '{"a": 1e999}'], 2, "'--args': a number that large cannot be stored"),
        (["trigger", "--args", '{"a": 1e300}'], 2, "'--args': a number that large cannot be stored"),
        (["trigger", "--args", f'{{"a": {"[" * 201 + "]" * 201}}}'], 2, "'--args': nested more than 200 levels deep"),
        (["trigger", "--args", '{"a": [1234567890123456789.5]}'], 2, "has more digits than a number can have here"),
        (["trigger", "--args", '{"a": 1e-400}'], 2, "has more digits than a number can have here"),
        (["schedule", "create", "b", "--action", "note", "--at", "2001-01-02T03:04Z"], 2, "write a time to come"),
        (
            ["schedule", "delete", "refresh"],
            1,
            "nothing was changed: no answer came; --yes does it without a question",
        ),
        (["schedule", "create", "b", "--action", "note", "--at", "9999-12-31T00:00Z"], 2, "the last one 9999-12-29"),
        (["schedule", "create", "b", "--action", "note", "--at", "10000-01-01T00:00Z"], 2, "the last one 9999-12-29"),
        (["schedule", "create", "b", "--action", "note", "--at", "0001-01-01T00:00+23:00"], 2, "is out of bounds"),
        (["schedule", "create", "a\nb", "--action", "note"], 2, "'NAME': a name has no line breaks"),
        (["schedule", "create", " ", "--action", "note"], 2, "'NAME': must not be empty"),
        (["schedule", "run", "b", "--source", "nowhere.py"], 2, "there is no Python file"),
        (["recover", "--older-than", "5"], 2, "'5' is not a duration"),
        (["recover", "--all", "--older-than", "5m"], 2, "--all and --older-than exclude each other"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    room: Room, words: list[str], status: int, sentence: str
) -> None:
    room.query("select ensure_schedule('refresh')")
    code, said = refused(room.dsn, *words)
    assert code == status
    assert said.startswith("Error: ")
    assert sentence in said


def test_an_action_without_a_name_is_refused_before_anybody_looks_for_it(tmp_path: Path) -> None:
    status, _, err = Shell(None, tmp_path).quickly("schedule", "create", "b", "--action", "")
    assert (status, err.splitlines()[-1]) == (2, "Error: Invalid value for '--action': must not be empty")
    assert "Warning" not in err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("raise SystemExit(4)", "Error: {} cannot be imported, SystemExit: 4\n"),
        ("import sys; sys.exit('no\\nsuch thing')", "Error: {} cannot be imported, SystemExit: no such thing\n"),
    ],
)
def test_a_source_that_ends_the_process_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    source = tmp_path / "ends.py"
    source.write_text(text)
    status, out, err = Shell(None, tmp_path).quickly("run-due", "--source", str(source))
    assert (status, out, err) == (2, "", sentence.format(source))


def test_the_sentence_of_a_decorator_is_printed_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "refuses.py"
    source.write_text("from cronlease import action\naction(' ')")
    with pytest.raises(SystemExit, match=r"^cronlease: an action needs a name"):
        load_source(source)


def test_without_the_schema_it_says_how_to_make_it(empty_dsn: str) -> None:
    for words in (["schedule", "list"], ["explain", "a"], ["recover"]):
        assert refused(empty_dsn, *words) == (
            1,
            "Error: the database has no schema of ours, or an older one: run `cronlease migrate` as its owner",
        )


def test_recover_and_delete_say_what_they_did(room: Room) -> None:
    schedule(room, "a")
    held(room, "a")

    def says(*words: str) -> Any:
        return json.loads(Shell(room.dsn, Path("nowhere")).says_quickly(*words, "--json"))

    cronlease = Shell(room.dsn, Path("nowhere"))
    assert cronlease.says_quickly("recover").startswith("no lease of that age has run out: --all")
    assert cronlease.says_quickly("recover", "--all") == "no lease has run out\n"
    code, said = refused(room.dsn, "schedule", "delete", "a", "--yes")
    assert (code, said.startswith('Error: "a" is running until ')) == (1, True)
    room.query("update refresh_schedule set locked_until = now() - interval '1 s'")
    assert says("recover") == {"recovered": 0, "left": []}, "five minutes unless said otherwise, as in SQL"
    assert says("recover", "--all") == {"recovered": 1, "left": []}
    assert says("schedule", "delete", "a", "--yes") == {"function": "a", "deleted": True}
    assert room.query("select from refresh_schedule") == []


def test_a_cron_is_made_planned_and_shown_with_its_next_five_slots(room: Room, cronlease: Shell) -> None:
    create = (
        "schedule",
        "create",
        "digest",
        "--action",
        "note",
        "--cron",
        "30 2 * * *",
        "--time-zone",
        "Europe/Berlin",
    )
    assert "is scheduled, due in" in cronlease.says(*create, "--missed", "skip", "--late", "10m", "--attempts", "5")
    row = room.query(
        "select cron, time_zone, missed, attempts, planned_from, slot_at = next_run_at from refresh_schedule"
    )
    assert row == [("30 2 * * *", "Europe/Berlin", "skip", 5, "30 2 * * * Europe/Berlin", True)]
    for verb in (("explain", "digest"), ("schedule", "show", "digest")):
        said = cronlease.says_quickly(*verb)
        slots = [line for line in said.splitlines() if line.startswith("Next slot: ")]
        assert len(slots) == 5
        assert all("02:30:00 Europe/Berlin, " in line and line.endswith(" UTC") for line in slots)
        assert "Its plan is made from 30 2 * * * Europe/Berlin since " in said
    assert "by the cron" in cronlease.says_quickly("explain", "digest")


@pytest.mark.thorough
def test_a_beat_is_created_and_an_invalid_cadence_is_refused(room: Room, cronlease: Shell) -> None:
    create = ("schedule", "create", "beat", "--action", "note")
    assert "is scheduled, due in" in cronlease.says(*create, "--every", "6h", "--in", "1h")
    assert room.query("select every, planned_from, slot_at = next_run_at from refresh_schedule") == [
        ("6h", "6h", True)
    ]
    for more, why in (
        (("--every", "hit"), "for a function with a trigger of its own"),
        (("--cron", "61 * * * *"), "is not a cron expression"),
        (("--cron", "0 9 * * *", "--time-zone", "Mars"), "is not a time zone"),
        (("--cron", "0 9 * * *", "--in", "1h"), "leave out the time and the delay"),
        (("--every", "6h", "--late", "1h"), "give both or neither"),
    ):
        # In a process of its own: it loads the actions.
        status, _, err = cronlease(*create[:2], "other", *create[3:], *more)
        assert (status != 0, why in err) == (True, True), err
