"""What a process says when it is told to stop. The signal is a real one, to this process."""

import asyncio
import logging
import signal
import subprocess
import sys
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


def test_work_in_the_background_does_not_take_the_answer_with_it() -> None:
    """A lease that is being released, for instance: without a signal, nobody was told to stop."""

    async def work() -> str:
        process = Lifecycle()
        with process.work():
            async with process.guarding(5):
                pass
            return "the answer"

    before = signal.getsignal(signal.SIGTERM)
    assert asyncio.run(work()) == "the answer"
    assert signal.getsignal(signal.SIGTERM) == before


def test_in_a_host_the_signal_goes_on_to_the_host_while_our_runs_drain() -> None:
    arrived: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: arrived.append(number))
    host = signal.getsignal(signal.SIGTERM)

    async def serve() -> None:
        process = Lifecycle()
        interrupted = asyncio.Event()
        process.listen(0.1)
        process.listen(0.1)
        with process.work(), process.interruptible(interrupted.set):
            signal.raise_signal(signal.SIGTERM)
            # At once, and once.
            assert arrived == [signal.SIGTERM]
            await asyncio.wait_for(interrupted.wait(), 10)
            assert process.draining
        while signal.getsignal(signal.SIGTERM) != host:
            await asyncio.sleep(0.01)
        assert arrived == [signal.SIGTERM]

    try:
        asyncio.run(asyncio.wait_for(serve(), 20))
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_host_whose_loop_is_gone_still_gets_its_signals() -> None:
    arrived: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: arrived.append(number))
    process = Lifecycle()

    async def serve() -> None:
        process.listen(0.1)

    try:
        # The second time on another loop, as a host that is started again in the same process.
        for _ in range(2):
            asyncio.run(serve())
        signal.raise_signal(signal.SIGTERM)
        assert arrived == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_process_that_handles_no_signal_ends_by_it_after_the_drain() -> None:
    script = """if True:
        import asyncio, signal
        from cronlease.process.shutdown import process

        async def serve():
            process.listen(5)
            with process.work():
                signal.raise_signal(signal.SIGTERM)
                await asyncio.sleep(0.2)
                print("finished", flush=True)
            await asyncio.sleep(20)

        asyncio.run(serve())
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=40)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "finished\n")
