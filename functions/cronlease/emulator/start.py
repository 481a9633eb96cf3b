"""What is emulated, and how it is started: from the options to a function that answers and is due."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cronlease.db.migration.migrate import MigrationError
from cronlease.embedded.install import EmbeddedPostgresError
from cronlease.emulator.environment import Cast, Stage
from cronlease.emulator.faults import NO_FAULTS, Faults
from cronlease.emulator.function import EmulatorError, FunctionEnded, FunctionProcess
from cronlease.emulator.jobs import Plan
from cronlease.emulator.stopping import Stopping
from cronlease.emulator.verdict import Scope
from cronlease.process.emulated import Times
from cronlease.settings import SettingsError

_START_SECONDS = 30.0

Warn = Callable[[str], None]
TROUBLES = (EmulatorError, EmbeddedPostgresError, MigrationError, SettingsError)


class NeverStarted(FunctionEnded):
    """The function ended before it had answered anything: its source or its target may be wrong."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is emulated: `target` of `source`, hit by the jobs of the plan, with these faults. The name is for people,
    and declared is what its decorator says."""

    source: Path
    target: str
    name: str
    declared: Times
    plan: Plan
    scope: Scope
    port: int = 8080
    faults: Faults = NO_FAULTS
    # Of all faults those are left out that this machine or this database cannot have; else they are an error.
    all_that_can_be: bool = False
    seconds: float | None = None
    oidc: bool = False
    setup: Path | None = None
    # Whether it is the shipped job, whose rows are then shown.
    openings: bool = True

    def cast(self) -> Cast:
        # With one worker alone nobody could take over from a run that is stopped.
        return Cast(
            self.source.absolute(),
            self.target,
            self.name,
            self.declared,
            self.plan.environment,
            self.setup,
            workers=2 if self.faults.hurt_processes else 1,
            oidc=self.oidc,
            reads_feeds=self.openings,
        )


def ready(stage: Stage, options: Options, stopping: Stopping) -> bool:
    """Waits until the function answers, and what it serves is due; False when it was told to stop meanwhile."""
    if stage.server is not None:
        options.scope.make_due(stage.conninfo)
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(stage.function):
        if time.monotonic() > deadline:
            late = f"the function does not answer at {stage.function.url} after {_START_SECONDS:.0f} seconds"
            raise EmulatorError(f"{late}; {stage.log.keep()}")
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


def beside(work: Callable[[], None]) -> None:
    """In a thread of its own, so that a signal is heard meanwhile."""
    threading.Thread(target=work, daemon=True).start()
