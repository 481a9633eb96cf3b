"""The command line as a person runs it: real processes, without what that person's shell has set. Verbs that only
ask the database may be run in this process instead, which is quicker."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from cronlease.cli.main import main
from tests.acceptance.conftest import clean_environment

ACTIONS = Path(__file__).with_name("actions.py")


class Shell:
    """Runs `cronlease`, with the actions beside this file, against one database."""

    def __init__(self, dsn: str | None, data_dir: Path) -> None:
        database = {} if dsn is None else {"DATABASE_URL": dsn}
        self.environment = clean_environment(
            **database,
            CRONLEASE_DATA_DIR=str(data_dir),
            CRONLEASE_DISPATCH_PAUSE="0s",
            FUNCTION_SOURCE=str(ACTIONS),
            TZ="UTC",
        )

    def start(self, *words: str, **streams: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "cronlease.cli.main", *words]
        return subprocess.Popen(
            command,
            env=self.environment,
            stdin=streams.get("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """The exit status, and what it wrote on its two streams; not which source it used, test_cli_source sees to
        that."""
        with self.start(*words) as process:
            out, err = process.communicate(timeout=50)
            return process.returncode, out, without_source(err)

    def quickly(self, *words: str) -> tuple[int, str, str]:
        """The same in this process: not for verbs that load the actions, they would stay loaded."""
        # What is not in our environment is taken out of the one this process has.
        without = {name: None for name in os.environ if name not in self.environment}
        done = CliRunner().invoke(main, words, env={**self.environment, **without, "FUNCTION_SOURCE": None})
        return done.exit_code, done.stdout, without_source(done.stderr)

    def says_quickly(self, *words: str) -> str:
        status, out, err = self.quickly(*words)
        assert (status, err) == (0, ""), (out, err)
        return out

    def says(self, *words: str) -> str:
        status, out, err = self(*words)
        assert (status, err) == (0, ""), (out, err)
        return out


def without_source(err: str) -> str:
    return "".join(line for line in err.splitlines(keepends=True) if not line.startswith("source: "))
