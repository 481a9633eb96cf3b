"""On a terminal a line shows how far long work has come, and is gone afterwards; elsewhere nothing is shown."""

import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opening_signals.samples.feeds import FeedServer
from tests.acceptance.shell import Shell
from tests.integration.conftest import Room

pytestmark = pytest.mark.thorough

LONG = """
import asyncio
from pathlib import Path

from cronlease import Run, action, scheduled


@scheduled
async def load(run: Run) -> None:
    run.progress("pages \\x1b[2J", 3, 7)
    while Path(run.args["gate"]).exists():
        await asyncio.sleep(0.02)
    run.progress("pages", 7, 7)
    run.progress("the rest")
    while not Path(run.args["gate"]).exists():
        await asyncio.sleep(0.02)


@action("plain")
def plain(run: Run) -> None:
    run.progress("rows", 40, 90)
    import time

    while Path(run.args["gate"]).exists():
        time.sleep(0.02)
    if run.args.get("fail"):
        raise ValueError("\\x1b[2Jboom")
"""


class Terminal:
    """A verb whose errors go to a terminal, and what it shows there."""

    def __init__(self, process: subprocess.Popen[str], screen: int) -> None:
        self.process = process
        self._screen = screen
        self.shown = ""

    def until(self, pattern: str) -> str:
        """What of it, without colours and movements, is like that."""
        while not (found := re.search(pattern, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown))):
            self.shown += os.read(self._screen, 10_000).decode()
        return found[0]


@contextmanager
def on_a_terminal(shell: Shell, *words: str) -> Iterator[Terminal]:
    screen, theirs = pty.openpty()
    command = [sys.executable, "-m", "cronlease.cli.main", *words]
    environment = {**shell.environment, "TERM": "xterm", "COLUMNS": "150"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        try:
            yield Terminal(process, screen)
        finally:
            process.kill()
            os.close(theirs)
            os.close(screen)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    (tmp_path / "gate").touch()
    return tmp_path / "gate"


@pytest.fixture
def shell(dsn: str, tmp_path: Path) -> Shell:
    (tmp_path / "main.py").write_text(LONG)
    shell = Shell(dsn, tmp_path)
    shell.environment["FUNCTION_SOURCE"] = str(tmp_path / "main.py")
    return shell


def test_a_long_run_shows_how_far_it_is(shell: Shell, gate: Path) -> None:
    with on_a_terminal(shell, "trigger", "--args", f'{{"gate": "{gate}"}}') as terminal:
        terminal.until(r"load: pages \?\[2J \S+ 3 of 7")
        gate.unlink()
        # And its clock goes on.
        seconds = int(terminal.until(r"load: the rest \S+ +0:00:\d\d")[-2:])
        terminal.until(f"0:00:{seconds + 1:02}")
        gate.touch()
        out, _ = terminal.process.communicate(timeout=30)
    assert out.startswith("load: success in ")
    assert out.count("\n") == 1


def test_the_lines_of_run_due_and_of_the_log_stand_beside_the_bar(shell: Shell, gate: Path, room: Room) -> None:
    room.query(f"select schedule_action('a', 'plain', '{{\"gate\": \"{gate}\", \"fail\": true}}')")
    room.query("select ensure_schedule('load')")
    room.query("select pause_refresh('load')")
    with on_a_terminal(shell, "run-due") as terminal:
        terminal.until("40 of 90")
        gate.unlink()
        out, _ = terminal.process.communicate(timeout=30)
        terminal.until("ValueError: .*boom")
    first, *rest = out.splitlines()
    assert first.endswith("ValueError: ?[2Jboom")
    assert rest == ["0 ran, 1 failed, 0 still due", "  `cronlease --debug ...` shows where"]
    assert "Traceback" not in terminal.shown
    # On a line from which the bar was taken first.
    assert re.search(r"\x1b\[2K\d\d:\d\d:\d\d ERROR   a did not end well", terminal.shown), terminal.shown


def test_a_check_of_sources_shows_how_many_are_done(shell: Shell, tmp_path: Path) -> None:
    listed = tmp_path / "sources.toml"
    shell.environment["CRONLEASE_SOURCES"] = str(listed)
    with FeedServer(latency=0) as feeds, socket.create_server(("127.0.0.1", 0)) as silent:
        feeds.start()
        feeds.write_sources(listed, ("acme",))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        listed.write_text(
            listed.read_text() + f'\n[[source]]\nname = "own"\nkind = "rss"\nurl = "{url}"\nallow_private = true\n'
        )
        with on_a_terminal(shell, "sources", "check", "--timeout", "1s") as terminal:
            terminal.until(r"waiting for own \S+ 1 of 2")
            out, _ = terminal.process.communicate(timeout=30)
    assert len(out.splitlines()) == 5
