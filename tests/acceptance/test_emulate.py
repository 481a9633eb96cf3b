"""`cronlease emulate` as a person runs it: what it shows, and that nothing is left when it ends."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HIT = re.compile(r"^\d\d:\d\d:\d\d  #\d+ +(\d{3}|---)  (ok|skipped|not ok|no) +(\w+) +\d+\.\d{3} s")


@pytest.fixture
def data_dir() -> Iterator[Path]:
    # Not tmp_path: root's is closed to the account that PostgreSQL runs as.
    base = Path(tempfile.mkdtemp(prefix="cronlease-test-"))
    base.chmod(0o755)
    (base / "data").mkdir(mode=0o755)
    yield base / "data"
    shutil.rmtree(base)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


@contextmanager
def emulator(data_dir: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    configured = {key for key in os.environ if key.startswith(("PG", "CRONLEASE_")) or key == "DATABASE_URL"}
    environment = {key: value for key, value in os.environ.items() if key not in configured}
    environment |= {
        "CRONLEASE_DATA_DIR": str(data_dir),
        "TMPDIR": str(data_dir.parent),  # so that what a killed one leaves there goes with it
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-m", "cronlease.cli", "emulate", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def processes_of(data_dir: Path) -> list[str]:
    """Every live process that was given this data directory or works in it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            given = f"CRONLEASE_DATA_DIR={data_dir}\0".encode() in (entry / "environ").read_bytes()
            # PostgreSQL's processes write their titles where their environment was.
            if given or (entry / "cwd").readlink().is_relative_to(data_dir):
                found.append((entry / "cmdline").read_text().replace("\0", " ").strip())
        except OSError:  # it has just ended, or is not ours to look at
            continue
    return found


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still not true after {seconds} s: {what}"
        time.sleep(0.05)


def read_to_first_hit(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    said = ""
    for line in process.stdout:
        said += line
        if HIT.match(line):
            return said
    raise AssertionError(f"it ended without a hit: {said}")


def test_one_sees_a_success_not_due_and_locked_within_half_a_minute(data_dir: Path, port: int) -> None:
    with emulator(data_dir, "--for", "17s", "--port", str(port)) as process:
        said, _ = process.communicate(timeout=55)
    assert process.returncode == 0, said
    assert processes_of(data_dir) == []
    hits = [found.groups() for line in said.splitlines() if (found := HIT.match(line))]
    assert {("200", "ok", "success"), ("200", "skipped", "not_due"), ("200", "skipped", "locked")} == set(hits), said
    assert re.search(r"ok +success +.* fetched 40, inserted 40, updated 0, unchanged 0", said), said
    assert f"curl -X POST http://127.0.0.1:{port}/ -d '{{\"force\": true}}'" in said
    assert re.search(r"^  refresh_opening_signals +\w+ +success +[2-9] +0 ", said, re.MULTILINE), said
    assert re.search(r"^  acme +\d+ ", said, re.MULTILINE), said
    password = (data_dir / "postgres" / "cluster" / "cronlease_password").read_text()
    assert password not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything_in_order(data_dir: Path, port: int, number: signal.Signals) -> None:
    with emulator(data_dir, "--port", str(port)) as process:
        read_to_first_hit(process)
        assert any("functions_framework" in command for command in processes_of(data_dir))
        assert any("postgres: checkpointer" in command for command in processes_of(data_dir))
        process.send_signal(number)
        said, _ = process.communicate(timeout=30)
        assert process.returncode == 0, said
        assert said.endswith("stopped\n")
        assert "no answer" not in said
        assert processes_of(data_dir) == []
    log = (data_dir / "postgres" / "postgres.log").read_text()
    assert "received fast shutdown request" in log
    assert "database system is shut down" in log


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
def test_a_killed_emulator_leaves_no_process_behind(data_dir: Path, port: int) -> None:
    with emulator(data_dir, "--port", str(port)) as process:
        read_to_first_hit(process)
        process.kill()
        process.wait()
        wait_until(lambda: not processes_of(data_dir), "no process is left")


def test_a_busy_port_is_named_before_anything_is_started(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        number = busy.getsockname()[1]
        with emulator(data_dir, "--port", str(number)) as process:
            said, _ = process.communicate(timeout=30)
    assert said == f"cronlease emulate: port {number} is in use: pass --port N\n"
    assert process.returncode == 1
    assert list(data_dir.iterdir()) == []


def test_a_function_that_cannot_start_is_quoted(data_dir: Path, port: int, tmp_path: Path) -> None:
    broken = tmp_path / "main.py"
    broken.write_text("raise RuntimeError('the flux is not capacitated')\n")
    with emulator(data_dir, "--port", str(port), "--source", str(broken)) as process:
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "the function ended with status 1" in said
    assert "the flux is not capacitated" in said
    assert processes_of(data_dir) == []


def test_a_source_that_is_not_there_is_named(data_dir: Path, port: int, tmp_path: Path) -> None:
    with emulator(data_dir, "--port", str(port), "--source", str(tmp_path / "nowhere.py")) as process:
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert f"there is no file {tmp_path / 'nowhere.py'}: pass --source" in said
    assert list(data_dir.iterdir()) == []
