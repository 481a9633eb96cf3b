"""cronlease: any number of hits, one real run, and a run that lost its lease can never write.

Three doors, one room, and the lock is in the wall:

    handler   (a hit)
    dispatch  (what is due)       run -> claim, supervise, ending, transaction -> lease -> database -> swift -> wall
    loop      (a worker)       (the room)                                                        (schema/functions)

    declare, registry, job                       the decorators, and what they have declared
    cascade                                      what a run starts cannot trigger again
    checkin, telemetry                           what a monitor and OpenTelemetry are told
    lifecycle                                    how the process ends: drain, interrupt, close, and only then exit
    schedule, action_lock                        what people and jobs do to schedules
    skip                                         the answer to a hit that does not run
    guard, statements, blocks, lending           the connections that a job gets, and what it cannot do with them
    raised                                       what a job raised, made harmless
    sqlalchemy                                   a session in a fenced block; only jobs import it
    cadence, outcome, settings, trouble, logs    leaves that everything may use
    migrate, cli, verbs/, emulator/              never imported by a deployed function that finds its schema
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cronlease.cadence import Every
    from cronlease.declare import action, scheduled
    from cronlease.outcome import Outcome, SkipReason, Status
    from cronlease.run import Run, run_once
    from cronlease.schedule import schedule_action
    from cronlease.trouble import AlreadyThere, LeaseLost, StillRunning, TimeIsUp

__all__ = [
    "AlreadyThere",
    "Every",
    "LeaseLost",
    "Outcome",
    "Run",
    "SkipReason",
    "Status",
    "StillRunning",
    "TimeIsUp",
    "action",
    "run_once",
    "schedule_action",
    "scheduled",
]

# Imported when asked for: a job's helper, or a test runner that finds our plugin, pays for what it uses.
_HOMES = {
    "AlreadyThere": "trouble",
    "Every": "cadence",
    "LeaseLost": "trouble",
    "Outcome": "outcome",
    "Run": "run",
    "SkipReason": "outcome",
    "Status": "outcome",
    "StillRunning": "trouble",
    "TimeIsUp": "trouble",
    "action": "declare",
    "run_once": "run",
    "schedule_action": "schedule",
    "scheduled": "declare",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # A deployed function is imported once, in the master, and then forked. Collecting in the midst of the imports
    # would walk everything the framework has loaded, a tenth of a cold start; frozen, it is not walked again, nor
    # copied.
    collecting = gc.isenabled()
    gc.disable()
    try:
        found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    finally:
        gc.freeze()
        if collecting:
            gc.enable()
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
