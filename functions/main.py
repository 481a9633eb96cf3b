"""The deployed module: functions-framework serves it. It only declares functions.

    functions-framework --source functions/main.py --target refresh_opening_signals

A second timed function is a second @scheduled function in this file, served with its own --target.
"""

from cronlease import Run, scheduled


# Lease, cadence and backoff are left to the environment (5m, 10m..15m and 20m..40m by default);
# @scheduled(lease="5m", every="10m..15m", backoff="20m..40m") would fix them here.
@scheduled
async def refresh_opening_signals(run: Run) -> None:
    """Fetches the openings of every source and upserts them, keeping when each was first seen."""
    # Only a real run imports the job: a skip stays fast.
    from opening_signals.job import refresh

    await refresh(run)
