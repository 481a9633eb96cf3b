"""cronlease: any number of hits, one real run, and a run that lost its lease can never write.

Three doors, one room, and the lock is in the wall:

    handler  -> run -> claim, supervise, ending, transaction -> lease -> database -> swift -> wall, pool
    (a hit)     (the room)                                                                    (schema/functions)

    cadence, outcome, settings, trouble, logs    leaves that everything may use
    migrate, cli, emulator/                      never imported by a deployed function that finds its schema
"""

import gc

# A deployed function is imported once, in the master, and then forked. Collecting in the midst of the imports would
# walk everything the framework has loaded, a tenth of a cold start; frozen, it is not walked again, nor copied.
_collecting = gc.isenabled()
gc.disable()

from cronlease.cadence import Every  # noqa: E402
from cronlease.handler import scheduled  # noqa: E402
from cronlease.outcome import Outcome, SkipReason, Status  # noqa: E402
from cronlease.run import Run, run_once  # noqa: E402
from cronlease.trouble import LeaseLost, TimeIsUp  # noqa: E402

gc.freeze()
if _collecting:
    gc.enable()

__all__ = ["Every", "LeaseLost", "Outcome", "Run", "SkipReason", "Status", "TimeIsUp", "run_once", "scheduled"]
