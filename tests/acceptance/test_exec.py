"""`cronlease exec`: any command as a run, in real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import clean_environment, kill
from tests.integration.conftest import NAME, Room, wait_until
from tests.require import need

# As the guide has it.
FENCED = """
psql "$DATABASE_URL" --quiet -v ON_ERROR_STOP=1 \\
  -v name="$CRONLEASE_NAME" -v request_id="$CRONLEASE_REQUEST_ID" -v fence="$CRONLEASE_FENCE" <<'SQL'
begin;
select assert_lease(:'name', :'request_id', :fence);
insert into effect values (:'request_id');
commit;
SQL
"""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def room(dsn: str) -> Room:
    room = Room(dsn)
    room.query("create table effect (request_id uuid)")
    return room


@pytest.fixture
def start(room: Room) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(script: str, *options: str, **environment: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "cronlease", "exec", NAME, *options, "--", "sh", "-c", script]
        process = subprocess.Popen(
            command,
            env=clean_environment(**{"DATABASE_URL": room.dsn, **environment}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        kill(process)  # type: ignore[arg-type]
        process.communicate()


def ended(process: "subprocess.Popen[str]", said: str = "") -> tuple[int, str, str]:
    out, err = process.communicate(said, timeout=40)
    return process.returncode, out, err


def is_alive(pid_file: Path) -> bool:
    """A process that nobody has waited for yet is over, too."""
    stat = Path("/proc", pid_file.read_text().strip(), "stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def has_pid(file: Path) -> bool:
    return file.exists() and file.read_text().endswith("\n")


def test_the_streams_and_the_status_are_the_command_s(start: Start, room: Room) -> None:
    assert ended(start("cat; echo to stderr >&2"), "to stdin\n") == (0, "to stdin\n", "to stderr\n")
    status, out, err = ended(start("echo out; exit 3"))
    assert (status, out) == (3, "out\n")
    (line,) = err.splitlines()
    assert line.startswith(f"{NAME}: failed in")
    assert "the command ended with status 3" in line
    # Asked for, its log has the error and no traceback of our own code.
    logged = ended(start("exit 3", CRONLEASE_LOG_LEVEL="INFO"))[2]
    assert ("run_failed" in logged, "Traceback" in logged) == (True, False)
    assert room.query("select trigger, status from refresh_runs order by fence") == [
        ("exec", "success"),
        ("exec", "failed"),
        ("exec", "failed"),
    ]


@pytest.mark.thorough
def test_a_skip_says_why_and_its_status_can_be_chosen(start: Start, room: Room) -> None:
    assert ended(start("true", "--every", "1h"))[0] == 0
    status, out, err = ended(start("echo never", "--every", "1h"))
    assert (status, out) == (0, "")
    assert err.startswith(f"{NAME}: skipped, not_due until")
    assert ended(start("echo never", "--every", "1h", "--skip-status", "75"))[0] == 75
    assert ended(start("echo again", "--every", "1h", "--force"))[:2] == (0, "again\n")
    by_cron = ("--cron", "0 0 1 1 *", "--time-zone", "Europe/Berlin")
    assert "not_due until" in ended(start("echo never", *by_cron))[2]
    holds = start("echo has it; cat")
    assert holds.stdout is not None
    assert holds.stdout.readline() == "has it\n"
    status, out, err = ended(start("echo never"))
    assert (status, out) == (0, "")
    assert err.startswith(f"{NAME}: skipped, locked until")
    assert ended(holds)[0] == 0


@pytest.mark.thorough
def test_mistakes_are_reported_in_a_sentence(start: Start, room: Room) -> None:
    missing = subprocess.run(
        [sys.executable, "-m", "cronlease", "exec", NAME, "--", "no-such-command"],
        env=clean_environment(DATABASE_URL=room.dsn),
        capture_output=True,
        text=True,
    )
    assert (missing.returncode, "there is no command 'no-such-command'" in missing.stderr) == (127, True)
    status, _, err = ended(start("true", "--lease", "soon"))
    assert (status, "Invalid value for '--lease': 'soon' is not a duration: write 90s" in err) == (2, True)
    status, out, err = ended(start("echo never", DATABASE_URL="postgresql://me@127.0.0.1:1/db"))
    assert (status, out, "schedule_read_error" in err) == (1, "", True)
    status, out, err = ended(start("echo never", CRONLEASE_SPAWNED="1"))
    assert (status, out, "skipped, spawned" in err) == (0, "", True)
    assert room.runs() == ["failed"]


def test_a_command_that_lost_its_lease_is_ended_with_all_that_it_started(
    start: Start, room: Room, tmp_path: Path
) -> None:
    grandchild = tmp_path / "pid"
    process = start(f"sleep 60 & echo $! > {grandchild}; wait; sleep 60", "--lease", "1s")
    wait_until(lambda: has_pid(grandchild))
    room.take_over()
    status, _, err = ended(process)
    assert (status, "lease_lost" in err) == (128 + signal.SIGTERM, True)
    wait_until(lambda: not is_alive(grandchild))
    assert room.runs() == ["abandoned", "running"]


@pytest.mark.thorough
def test_a_command_that_ignores_the_end_of_its_time_is_killed(start: Start, room: Room) -> None:
    process = start("trap '' TERM; while true; do sleep 0.1; done", CRONLEASE_MAX_RUN="1s")
    status, _, err = ended(process)
    assert (status, "deadline" in err) == (128 + signal.SIGKILL, True)
    assert room.runs() == ["failed"]


@pytest.mark.parametrize("graceful", [True, False])
def test_a_drain_passes_the_signal_on(start: Start, room: Room, graceful: bool) -> None:
    handler = "trap 'echo ending; exit 0' TERM;" if graceful else ""
    process = start(f"{handler} echo begun; while true; do sleep 0.1; done")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    status, out, _ = ended(process)
    assert (status, out) == (128 + signal.SIGTERM, "ending\n" if graceful else "")
    assert room.runs() == ["interrupted"]
    assert room.row("locked_by") == (None,)


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
def test_a_command_ends_with_an_exec_that_was_killed(start: Start, room: Room, tmp_path: Path) -> None:
    child = tmp_path / "pid"
    process = start(f"echo $$ > {child}; exec sleep 60")
    wait_until(lambda: has_pid(child))
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(child))


def test_a_shell_job_with_psql_is_fenced(start: Start, room: Room, tmp_path: Path) -> None:
    """One that writes while it has the lease, and one that was paused past it: the second one's psql is refused."""
    need("psql")
    assert ended(start(FENCED))[0] == 0
    assert room.query("select count(*) from effect") == [(1,)]
    begun, replaced = tmp_path / "begun", tmp_path / "replaced"
    waits = f"echo x > {begun}; until [ -e {replaced} ]; do sleep 0.05; done"
    process = start(f"{waits}{FENCED}echo psql ended with $?")
    wait_until(lambda: has_pid(begun))
    # Only the parent: it cannot renew, and it cannot end its command.
    process.send_signal(signal.SIGSTOP)
    room.take_over()
    replaced.touch()
    assert process.stdout is not None
    assert process.stdout.readline() == "psql ended with 3\n"
    process.send_signal(signal.SIGCONT)
    status, _, err = ended(process)
    assert (status, "no longer holds the lease" in err) == (1, True)
    assert room.query("select count(*) from effect") == [(1,)]
    assert room.runs() == ["success", "abandoned", "running"]
