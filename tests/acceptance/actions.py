"""What a user would write for the command line: actions, and a function that calls itself over HTTP."""

import asyncio
import subprocess
import sys
from pathlib import Path

import httpx2

from cronlease import Run, action, scheduled


@action("note")
async def note(run: Run) -> None:
    """Can be asked to fail, and to linger for as long as a file is there."""
    if "fail" in run.args:
        raise ValueError(run.args["fail"])
    while "linger" in run.args and Path(run.args["linger"]).exists():
        await asyncio.sleep(0.02)
    run.report(fetched=1)


@action("storm")
def storm(run: Run) -> None:
    """Starts a run-due, which would find more storms; each leaves a line where it began."""
    with Path(run.args["log"]).open("a") as log:
        print("a storm began", file=log, flush=True)
        command = [sys.executable, "-m", "cronlease.cli.main", "run-due", "--source", __file__]
        child = run.spawn(command, stdout=log, stderr=subprocess.STDOUT)
        assert child.wait(30) == 0


@scheduled
async def echo(run: Run) -> None:
    """Hits itself, and a run-due, from within its run; says what they answered."""
    url = run.args["url"]
    async with httpx2.AsyncClient(timeout=30, trust_env=False) as client:
        answers = [await client.post(url + path, headers=run.http_headers()) for path in ("/", "/run-due")]
    run.report(hint=" ".join(str(answer.json()["reason"]) for answer in answers))
