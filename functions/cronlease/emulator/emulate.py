"""Runs the function and a local scheduler that hits it, with the requested faults. Prints what happens, and at the
end whether the promises were kept."""

import json
import queue
import time
from contextlib import AbstractContextManager
from dataclasses import replace

import click

from cronlease.emulator import chaos
from cronlease.emulator.environment import Environment, started
from cronlease.emulator.faults import NO_FAULTS, Dice
from cronlease.emulator.function import EmulatorError, FunctionEnded
from cronlease.emulator.scheduler import Clock, Hit, Scheduler, Sender
from cronlease.emulator.show import Screen
from cronlease.emulator.start import Options, Warn, in_thread, ready
from cronlease.emulator.stopping import Stopping, stop_signals
from cronlease.emulator.verdict import Before, Ledger, judge, stale
from cronlease.emulator.verdict_file import kept_up_to_date
from cronlease.process.emulated import EMULATED

_FIRST_SCREEN_SECONDS = 30.0
_LAST_ANSWERS_SECONDS = 5.0
_SETTLE_SECONDS = 15.0
_SETTLE_PAUSE_SECONDS = 0.25
_SETTLE_DEADLINE_SECONDS = 10.0


def emulate(options: Options, screen: Screen, warn: Warn) -> int:
    """Runs until Ctrl-C, SIGTERM or `seconds` after the start and returns the exit status: 1 when a promise was
    broken, or when chaos saw too few runs to prove anything. Raises one of TROUBLES. Call it from the main thread:
    signals arrive there, and the child processes end with it."""
    with stop_signals(warn) as stopping, started(options.target, options.port, stopping, warn) as environment:
        if not ready(environment, options, stopping):
            environment.function.stop()
            screen.text("stopped")
            return 0
        screen.text(environment.heading())
        return _Emulation(options, environment, stopping, screen, warn).run()


def emulate_once(options: Options, waiting: AbstractContextManager[object], warn: Warn) -> int:
    """Sends one hit, for scripts: prints its answer and returns the exit status, 0 for a run or a skip that is ok.
    Waits for the answer within `waiting`, which may start threads: nothing forks after that."""
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
        click.echo(json.dumps(hit.body, ensure_ascii=False))
        if hit.status is not None and hit.status >= 500:
            warn(environment.log.keep())
        return 0 if hit.succeeded and hit.body.get("ok", True) else 1


class _Emulation:
    """From the first hit to the verdict."""

    def __init__(
        self, options: Options, environment: Environment, stopping: Stopping, screen: Screen, warn: Warn
    ) -> None:
        self._options = options
        self._environment = environment
        self._stopping = stopping
        self._events = stopping.events
        self._screen = screen
        self._warn = warn
        self._ledger = Ledger()
        self._dice = Dice()
        self._clock = Clock(options.plan.speed, options.plan.first)
        faults = options.faults
        if options.all_that_can_be:
            faults = chaos.possible(faults, environment.server)
        self._faults = faults
        self._chaos = chaos.Chaos(
            faults, self._dice, environment.function, environment.server, environment.conninfo, screen.fault
        )
        self._sender = Sender(environment.function.url, environment.token)
        self._schedulers = [
            Scheduler(
                self._sender,
                job,
                clock=self._clock,
                answered=self._events.put,
                faults=faults,
                dice=self._dice,
                asleep=options.plan.asleep,
            )
            for job in options.plan.jobs
        ]

    def run(self) -> int:
        conninfo = self._environment.conninfo
        before = Before.read(conninfo, self._options.scope)
        with kept_up_to_date(
            self._environment.verdict_file,
            lambda: judge(conninfo, before, self._ledger.copied(), self._dice.done.copy(), []),
        ):
            ended = self._hit_until_the_end()
        self._stopping.begin()
        stuck = self._settle(before) if self._faults != NO_FAULTS and ended is None else []
        self._environment.function.stop()
        self._last_answers()
        if ended is not None and not self._ledger.hits:
            raise ended
        verdict = judge(conninfo, before, self._ledger, self._dice.done, stuck, self._options.target.extensions)
        self._show_rows()
        keeps_times = self._environment.server is None and EMULATED not in self._options.plan.environment
        verdict = replace(verdict, cadence=self._options.unfit, keeps_times=keeps_times)
        self._screen.verdict(verdict, must_prove=self._options.all_that_can_be)
        if ended is not None:
            raise ended
        proves_nothing = self._options.all_that_can_be and verdict.too_few is not None
        if verdict.violations or self._ledger.strange or proves_nothing:
            self._warn(self._environment.log.keep())
        self._screen.text("\nstopped")
        return 1 if verdict.violations or proves_nothing else 0

    def _hit_until_the_end(self) -> FunctionEnded | None:
        """Returns the error if the function ended by itself."""
        for scheduler in self._schedulers:
            scheduler.start()
        try:
            self._follow()
        except FunctionEnded as ended:
            return ended
        finally:
            for scheduler in self._schedulers:
                scheduler.stop_hitting()
            self._chaos.end()
        return None

    def _follow(self) -> None:
        """Prints a line per hit until a signal comes or time is up; shows the rows once the first screen is full."""
        began, seconds = time.monotonic(), self._options.seconds
        # A short emulation shows the rows only at its end.
        rows_shown = seconds is not None and seconds < 2 * _FIRST_SCREEN_SECONDS
        while seconds is None or time.monotonic() < began + seconds:
            self._environment.function.check()
            if self._environment.server is not None and not self._environment.server.running:
                raise EmulatorError(
                    "the PostgreSQL it had joined stopped with the process that started it: start again"
                )
            self._chaos.tick()
            if not rows_shown and time.monotonic() > began + _FIRST_SCREEN_SECONDS:
                rows_shown = True
                self._show_rows()
            try:
                hit = self._events.get(timeout=0.2)
            except queue.Empty:
                continue
            if hit is None:
                return
            self._enter(hit)

    def _show_rows(self) -> None:
        functions, extensions = self._options.scope.functions, self._options.target.extensions
        self._screen.rows(self._environment.conninfo, functions, extensions)

    def _enter(self, hit: Hit) -> None:
        self._ledger.enter(hit)
        self._screen.hit(hit)

    def _settle(self, before: Before) -> list[str]:
        """Hits without faults until no expired lease is left; returns the schedules that keep one."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        stuck = stale(self._environment.conninfo, before)
        if stuck:
            self._stopping.announce("another run to take over the expired leases", _SETTLE_SECONDS)
        while stuck and time.monotonic() < deadline:
            in_thread(self._send_settling_hit)
            if not self._settling_hit_answered():
                return []  # a second signal: nobody waits for the result
            time.sleep(_SETTLE_PAUSE_SECONDS)
            stuck = stale(self._environment.conninfo, before)
        return stuck

    def _send_settling_hit(self) -> None:
        job = self._options.plan.jobs[0]
        self._events.put(self._sender.send(job, self._clock.now(), _SETTLE_DEADLINE_SECONDS, note="settling"))

    def _settling_hit_answered(self) -> bool:
        """Enters hits up to the settling one; False when a signal came first."""
        while (hit := self._events.get()) is not None:
            self._enter(hit)
            if hit.note == "settling":
                return True
        return False

    def _last_answers(self) -> None:
        deadline = time.monotonic() + _LAST_ANSWERS_SECONDS
        for scheduler in self._schedulers:
            scheduler.close(max(0.0, deadline - time.monotonic()))
        self._sender.close()
        while not self._events.empty():
            if (hit := self._events.get()) is not None:
                self._enter(hit)
