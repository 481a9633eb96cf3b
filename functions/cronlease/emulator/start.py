"""The options of an emulation, and its start: until the function answers and is due."""

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from cronlease.db.migration.packages import MigrationError
from cronlease.embedded.install import EmbeddedPostgresError
from cronlease.emulator.environment import Environment, Target
from cronlease.emulator.faults import NO_FAULTS, Faults
from cronlease.emulator.function import EmulatorError, FunctionEnded
from cronlease.emulator.jobs import Plan
from cronlease.emulator.stopping import Stopping
from cronlease.emulator.verdict import Scope
from cronlease.settings import SettingsError

_START_SECONDS = 30.0

Warn = Callable[[str], None]
TROUBLES = (EmulatorError, EmbeddedPostgresError, MigrationError, SettingsError)


class NeverStarted(FunctionEnded):
    """The function ended before its first answer: its source or its target may be wrong."""


@dataclass(frozen=True, slots=True)
class Options:
    """The target is hit by the jobs of the plan, with these faults; the verdict covers the scope."""

    target: Target
    plan: Plan
    scope: Scope
    port: int = 8080
    faults: Faults = NO_FAULTS
    # Faults that are impossible with this machine or database are left out; otherwise they are an error.
    all_that_can_be: bool = False
    seconds: float | None = None
    # Why the cadence does not fit how often the function is hit, and what would.
    unfit: str | None = None


def ready(environment: Environment, options: Options, stopping: Stopping) -> bool:
    """Makes the schedules due and waits until the function answers; False when a signal came first."""
    if environment.server is not None:
        options.scope.make_due(environment.conninfo)
    deadline = time.monotonic() + _START_SECONDS
    try:
        while not environment.function.answers():
            if time.monotonic() > deadline:
                late = (
                    f"the function does not answer at {environment.function.url} after {_START_SECONDS:.0f} seconds"
                )
                raise EmulatorError(f"{late}; {environment.log.keep()}")
            with suppress(queue.Empty):
                if stopping.events.get(timeout=0.05) is None:
                    return False
    except FunctionEnded as ended:
        raise NeverStarted(ended.sentence, ended.log_is_kept) from None
    return True


def in_thread(work: Callable[[], None]) -> None:
    """Keeps the main thread free for signals."""
    threading.Thread(target=work, daemon=True).start()
