"""The ways the function is started, and its processes as the system sees them."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.acceptance.conftest import Served, answers, clean_environment, free_port, kill
from tests.integration.conftest import wait_until


def children(pid: int) -> list[int]:
    with suppress(FileNotFoundError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def workers(served: Served) -> list[int]:
    """The processes that serve: gunicorn's workers, or the server itself where it has none."""
    return children(served.process.pid) or [served.process.pid]


@contextmanager
def started(command: Sequence[str], log: Path, url: str = "", **environment: str) -> Iterator[Served]:
    """A process in a session of its own, gone when the block ends."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=clean_environment(**environment), stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield Served(url, process, log)
    finally:
        kill(process)


@contextmanager
def serving_as(kind: str, source: Path, target: str, log: Path, **environment: str) -> Iterator[Served]:
    """Kind: functions-framework, uvicorn, worker or run-due."""
    if kind in ("worker", "run-due"):
        command = [sys.executable, "-m", "cronlease.cli.main", kind, "--source", str(source)]
        with started(command, log, **environment) as served:
            yield served
        return
    port = free_port()
    if kind == "uvicorn":
        command = [sys.executable, "-m", "uvicorn", "functions_framework.aio:app", "--port", str(port)]
        environment |= {"FUNCTION_SOURCE": str(source), "FUNCTION_TARGET": target}
    else:
        command = [sys.executable, "-m", "functions_framework", "--source", str(source), "--target", target]
        command += ["--host", "127.0.0.1", "--port", str(port)]
    with started(command, log, f"http://127.0.0.1:{port}", **environment) as served:
        wait_until(lambda: answers(served), 30)
        yield served
