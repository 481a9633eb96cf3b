"""The deployable without a handler for SIGTERM. For the negative control of P6."""

from cronlease import Run, scheduled
from cronlease.process.shutdown import process

process.hook = lambda *_, **__: None  # type: ignore[method-assign]


@scheduled
async def refresh_opening_signals(run: Run) -> None:
    from opening_signals.job import refresh

    await refresh(run)
