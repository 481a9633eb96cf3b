"""Everything on one machine: what is hit, and a scheduler that hits it, as badly as it is told to. Prints what
happens, and at the end whether the promises were kept."""

import queue
import time
from dataclasses import replace

from cronlease.emulator import chaos
from cronlease.emulator.bulletin import Bulletin
from cronlease.emulator.clock import Clock
from cronlease.emulator.environment import Environment, started
from cronlease.emulator.faults import NO_FAULTS, Dice
from cronlease.emulator.function import EmulatorError, FunctionEnded
from cronlease.emulator.jobs import TimedJob
from cronlease.emulator.scheduler import Hit, Scheduler, Sender
from cronlease.emulator.show import Screen
from cronlease.emulator.start import Options, Warn, in_thread, ready
from cronlease.emulator.stopping import Stopping, stop_signals
from cronlease.emulator.verdict import Before, Ledger, judge, stale

_FIRST_SCREEN_SECONDS = 30.0
_LAST_ANSWERS_SECONDS = 5.0
_SETTLE_SECONDS = 15.0
_SETTLE_PAUSE_SECONDS = 0.25
_ATTEMPT_TO_SETTLE_SECONDS = 10.0


def emulate(options: Options, screen: Screen, warn: Warn) -> int:
    """Runs until Ctrl-C, SIGTERM or `seconds` after the start; answers the exit status: 1 when a promise was broken,
    or when chaos saw too few runs to prove anything. Raises one of TROUBLES. Call it from the main thread: signals
    arrive there, and the children end with it."""
    with stop_signals(warn) as stopping, started(options.target, options.port, stopping, warn) as environment:
        if not ready(environment, options, stopping):
            environment.function.stop()
            screen.text("stopped")
            return 0
        screen.text(environment.heading())
        return _Emulation(options, environment, stopping, screen, warn).run()


class _Emulation:
    """The hits, from the first to the verdict."""

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
        before = Before.read(self._environment.conninfo, self._options.scope)
        bulletin = Bulletin(
            self._environment.verdict_file,
            lambda: judge(self._environment.conninfo, before, self._ledger.copied(), self._dice.done.copy(), []),
        )
        bulletin.start()
        ended = self._hit_until_the_end()
        bulletin.stop()
        self._stopping.begin()
        stuck = self._settle(before) if self._faults != NO_FAULTS and ended is None else []
        self._environment.function.stop()
        self._last_answers()
        if ended is not None and not self._ledger.hits:
            raise ended
        brought = self._options.target.brought
        verdict = judge(self._environment.conninfo, before, self._ledger, self._dice.done, stuck, brought)
        self._show_rows()
        verdict = replace(verdict, cadence=self._options.unfit)
        self._screen.verdict(verdict)
        if ended is not None:
            raise ended
        proves_nothing = self._options.all_that_can_be and verdict.too_few is not None
        if verdict.violations or self._ledger.strange or proves_nothing:
            self._warn(self._environment.log.keep())
        self._screen.text("\nstopped")
        return 1 if verdict.violations or proves_nothing else 0

    def _hit_until_the_end(self) -> FunctionEnded | None:
        """Answers the error when the function was the first to end."""
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
        """Prints a line per hit, and the rows at the end of the first screen, until told to stop or time is up."""
        began, seconds = time.monotonic(), self._options.seconds
        # Where it ends soon after, once is enough.
        screen_is_full = seconds is not None and seconds < 2 * _FIRST_SCREEN_SECONDS
        while seconds is None or time.monotonic() < began + seconds:
            self._environment.function.check()
            if self._environment.server is not None and not self._environment.server.running:
                raise EmulatorError(
                    "the PostgreSQL it had joined stopped with the process that started it: start again"
                )
            self._chaos.tick()
            if not screen_is_full and time.monotonic() > began + _FIRST_SCREEN_SECONDS:
                screen_is_full = True
                self._show_rows()
            try:
                hit = self._events.get(timeout=0.2)
            except queue.Empty:
                continue
            if hit is None:
                return
            self._enter(hit)

    def _show_rows(self) -> None:
        self._screen.rows(self._environment.conninfo, self._options.target.brought)

    def _enter(self, hit: Hit) -> None:
        self._ledger.enter(hit)
        self._screen.hit(hit)

    def _settle(self, before: Before) -> list[str]:
        """Hits in peace until no lease that has run out is left; answers those that stay."""
        job, deadline = self._options.plan.jobs[0], time.monotonic() + _SETTLE_SECONDS
        stuck = stale(self._environment.conninfo, before)
        if stuck:
            self._stopping.announce("what was hurt to be taken over", _SETTLE_SECONDS)
        while stuck and time.monotonic() < deadline:
            in_thread(lambda: self._events.put(self._settling_hit(job)))
            if not self._enter_until("settling"):
                return []  # told to stop once more: nobody waits for it
            time.sleep(_SETTLE_PAUSE_SECONDS)
            stuck = stale(self._environment.conninfo, before)
        return stuck

    def _settling_hit(self, job: TimedJob) -> Hit:
        return self._sender.send(job, self._clock.now(), _ATTEMPT_TO_SETTLE_SECONDS, note="settling")

    def _enter_until(self, note: str) -> bool:
        """Up to the answer of such a hit; False when it was told to stop."""
        while (hit := self._events.get()) is not None:
            self._enter(hit)
            if hit.note == note:
                return True
        return False

    def _last_answers(self) -> None:
        deadline = time.monotonic() + _LAST_ANSWERS_SECONDS
        for scheduler in self._schedulers:
            scheduler.close(max(0.0, deadline - time.monotonic()))
        self._sender.close()
        while not self._enter_what_came():
            continue

    def _enter_what_came(self) -> bool:
        """False when it was told to stop."""
        while not self._events.empty():
            hit = self._events.get()
            if hit is None:
                return False
            self._enter(hit)
        return True
