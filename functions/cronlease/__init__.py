"""cronlease: any number of hits, one real run, and a run that lost its lease can never write.

Three doors, one room, and the lock is in the wall:

    handler  -> run -> claim, supervise, ending, transaction -> lease -> database -> wall, pool
    (a hit)     (the room)                                                           (schema/functions)

    cadence, outcome, settings, trouble, logs    leaves that everything may use
    migrate, cli, emulator/                      never imported by a deployed function that finds its schema
"""

from cronlease.cadence import Every
from cronlease.handler import scheduled
from cronlease.outcome import Outcome, SkipReason, Status
from cronlease.run import Run, run_once
from cronlease.trouble import LeaseLost, TimeIsUp

__all__ = ["Every", "LeaseLost", "Outcome", "Run", "SkipReason", "Status", "TimeIsUp", "run_once", "scheduled"]
