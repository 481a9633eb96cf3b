"""cronlease: any number of hits, one real run, and a run that lost its lease can never write.

A trigger starts a run, one package runs it, and the lock is in the database: each race is closed by one SQL statement
in schema/, never by Python.

    decorators, registry, job       what a user declares, and what is declared
    triggers/                       what starts a run: HTTP, Lambda, a block, run-due, a worker; and who may
    page/                           the status page: templates and what fills them; imported when a browser asks
    run/                            one run: claim or skip, work under a heartbeat, write the end
    explain/                        why a schedule did or did not run, in sentences
    db/                             connections, one typed function per SQL function, and migration/
    process/                        how the process ends, and what its children may not do
    observe/                        logs without secrets, OpenTelemetry, check-ins, alerts
    settings, readers, arguments, cadence, slots, outcome, errors   small values that any package may use
    cli/, emulator/, embedded/, testing/    for people; a deployed function imports none of them before it needs it

pyproject.toml says which package may import which, and import-linter checks it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cronlease.cadence import Every
    from cronlease.db.action_lock import try_acquire_action_lock
    from cronlease.db.schedule import schedule_action
    from cronlease.decorators import action, scheduled
    from cronlease.errors import AlreadyThere, LeaseLost, StillRunning, TimeIsUp
    from cronlease.outcome import Outcome, RunFailed, Skipped, SkipReason, Status
    from cronlease.run.execution import run_once
    from cronlease.run.run import Run
    from cronlease.triggers.asgi import asgi
    from cronlease.triggers.aws_lambda import aws_lambda
    from cronlease.triggers.lease import lease

__all__ = [
    "AlreadyThere",
    "Every",
    "LeaseLost",
    "Outcome",
    "Run",
    "RunFailed",
    "SkipReason",
    "Skipped",
    "Status",
    "StillRunning",
    "TimeIsUp",
    "action",
    "asgi",
    "aws_lambda",
    "lease",
    "run_once",
    "schedule_action",
    "scheduled",
    "try_acquire_action_lock",
]

# Imported on first use: a job's helper, or a test runner that finds our plugin, pays only for what it uses.
_HOMES = {
    "AlreadyThere": "errors",
    "Every": "cadence",
    "LeaseLost": "errors",
    "Outcome": "outcome",
    "Run": "run.run",
    "RunFailed": "outcome",
    "SkipReason": "outcome",
    "Skipped": "outcome",
    "Status": "outcome",
    "StillRunning": "errors",
    "TimeIsUp": "errors",
    "action": "decorators",
    "asgi": "triggers.asgi",
    "aws_lambda": "triggers.aws_lambda",
    "lease": "triggers.lease",
    "run_once": "run.execution",
    "schedule_action": "db.schedule",
    "scheduled": "decorators",
    "try_acquire_action_lock": "db.action_lock",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cronlease.process.importing import uncollected

    with uncollected():
        value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
