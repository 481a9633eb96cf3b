"""A single hit, for scripts."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager

from cronlease.emulator.clock import Clock
from cronlease.emulator.environment import started
from cronlease.emulator.function import EmulatorError
from cronlease.emulator.scheduler import Sender
from cronlease.emulator.start import Options, Warn, in_thread, ready
from cronlease.emulator.stopping import stop_signals


def once(options: Options, echo: Callable[[str], None], waiting: AbstractContextManager[object], warn: Warn) -> int:
    """One hit; prints its answer and answers the exit status: 0 when it is ok, a run or a skip. The answer is awaited
    within `waiting`, which may have threads: nothing is forked any more."""
    with stop_signals(warn) as stopping, started(options.target, options.port, stopping, warn) as environment:
        if not ready(environment, options, stopping):
            return 1
        job, sender = options.plan.jobs[0], Sender(environment.function.url, environment.token)
        with waiting:
            in_thread(lambda: stopping.events.put(sender.send(job, Clock().now(), job.attempt_deadline)))
            hit = stopping.events.get()
        if hit is None:
            return 1
        if hit.error is not None:
            environment.function.check()
            raise EmulatorError(f"the function did not answer: {hit.error}; {environment.log.keep()}")
        echo(json.dumps(hit.body, ensure_ascii=False))
        if hit.status is not None and hit.status >= 500:
            warn(environment.log.keep())
        return 0 if hit.succeeded and hit.body.get("ok", True) else 1
