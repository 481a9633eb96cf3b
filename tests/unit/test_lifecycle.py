"""What a process says when it is told to stop. The signal is a real one, to this process."""

import asyncio
import logging
import signal
from contextlib import ExitStack
from functools import partial

import pytest

from cronlease.process.shutdown import Lifecycle


@pytest.mark.parametrize("runs", [0, 2])
def test_it_counts_the_runs_in_progress_and_not_itself(
    runs: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, logger="cronlease")
    monkeypatch.setattr(logging.getLogger("cronlease"), "propagate", True)

    async def work() -> None:
        process = Lifecycle()
        async with process.guarding(5):
            with ExitStack() as stack:
                for place in range(runs):
                    stack.enter_context(process.interruptible(partial(print, place)))
                signal.raise_signal(signal.SIGTERM)
                await process.pause(5)

    asyncio.run(work())
    assert caplog.messages[0] == f"Told to stop, {runs} in progress: waiting up to 5 s"
