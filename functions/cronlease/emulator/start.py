"""What is emulated, and how it is started: from the options to a function that answers and is due."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from cronlease.db.migration.migrate import MigrationError
from cronlease.embedded.install import EmbeddedPostgresError
from cronlease.emulator.environment import Environment, Target
from cronlease.emulator.faults import NO_FAULTS, Faults
from cronlease.emulator.function import EmulatorError, FunctionEnded, FunctionProcess
from cronlease.emulator.jobs import Plan
from cronlease.emulator.stopping import Stopping
from cronlease.emulator.verdict import Scope
from cronlease.settings import SettingsError

_START_SECONDS = 30.0

Warn = Callable[[str], None]
TROUBLES = (EmulatorError, EmbeddedPostgresError, MigrationError, SettingsError)


class NeverStarted(FunctionEnded):
    """The function ended before it had answered anything: its source or its target may be wrong."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is emulated, hit by the jobs of the plan, with these faults; the scope is what the verdict looks at."""

    target: Target
    plan: Plan
    scope: Scope
    port: int = 8080
    faults: Faults = NO_FAULTS
    # Faults that this machine or this database cannot have are left out; otherwise they are an error.
    all_that_can_be: bool = False
    seconds: float | None = None
    # Why the function's cadence does not fit how often it is hit, and what would.
    unfit: str | None = None


def ready(environment: Environment, options: Options, stopping: Stopping) -> bool:
    """Waits until the function answers, and what it serves is due; False when it was told to stop meanwhile."""
    if environment.server is not None:
        options.scope.make_due(environment.conninfo)
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(environment.function):
        if time.monotonic() > deadline:
            late = f"the function does not answer at {environment.function.url} after {_START_SECONDS:.0f} seconds"
            raise EmulatorError(f"{late}; {environment.log.keep()}")
        try:
            if stopping.events.get(timeout=0.05) is None:
                return False
        except queue.Empty:
            continue
    return True


def _answers(function: FunctionProcess) -> bool:
    try:
        return function.answers()
    except FunctionEnded as ended:
        raise NeverStarted(ended.sentence, ended.log_is_kept) from None


def in_thread(work: Callable[[], None]) -> None:
    """Leaves the main thread free for signals."""
    threading.Thread(target=work, daemon=True).start()
