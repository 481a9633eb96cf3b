"""Everything on one machine: what is hit, and a scheduler that hits it, as badly as it is told to. Prints what
happens, and at the end whether the promises were kept."""

import json
import queue
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cronlease.emulator import chaos
from cronlease.emulator.clock import Clock
from cronlease.emulator.faults import NO_FAULTS, Dice, Faults
from cronlease.emulator.function import EmulatorError, FunctionEnded, FunctionProcess
from cronlease.emulator.install import EmbeddedPostgresError
from cronlease.emulator.jobs import Plan
from cronlease.emulator.scheduler import Hit, Scheduler, Sender
from cronlease.emulator.show import Screen, rows_in_the_database
from cronlease.emulator.stage import Stage, staged
from cronlease.emulator.verdict import Before, Ledger, judge, stale
from cronlease.migrate import MigrationError
from cronlease.settings import SettingsError

_FIRST_SCREEN_SECONDS = 30.0
_START_SECONDS = 30.0
_LAST_ANSWERS_SECONDS = 5.0
_SETTLE_SECONDS = 15.0
_SETTLE_PAUSE_SECONDS = 0.25
_ATTEMPT_TO_SETTLE_SECONDS = 10.0

# What the main thread waits for: an answered hit, or None when it is told to stop.
Events = queue.SimpleQueue[Hit | None]
TROUBLES = (EmulatorError, EmbeddedPostgresError, MigrationError, SettingsError)


class NeverStarted(EmulatorError):
    """The function ended before it had answered anything: its source or its target may be wrong."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is emulated: `target` of `source`, hit by the jobs of the plan, with these faults."""

    source: Path
    target: str
    plan: Plan
    port: int = 8080
    faults: Faults = NO_FAULTS
    # Of all faults those are left out that this machine or this database cannot have; else they are an error.
    all_that_can_be: bool = False
    seconds: float | None = None
    oidc: bool = False
    # Whether it is the shipped job, whose rows are then shown.
    openings: bool = True


def emulate(options: Options, screen: Screen) -> int:
    """Runs until Ctrl-C, SIGTERM or `seconds` after the start; answers the exit status: 1 when a promise was broken.
    Raises one of TROUBLES. Call it from the main thread: signals arrive there, and the children end with it."""
    with _stop_signals() as events, _staged(options) as stage:
        if not _wait_until_it_answers(stage.function, events):
            stage.function.stop()
            screen.text("stopped")
            return 0
        screen.text(stage.heading())
        return _Emulation(options, stage, events, screen).run()


def once(options: Options, echo: Callable[[str], None], waiting: AbstractContextManager[object]) -> int:
    """One hit; prints its answer and answers the exit status: 0 when it is ok, a run or a skip. The answer is awaited
    within `waiting`, which may have threads: nothing is forked any more."""
    with _stop_signals() as events, _staged(options) as stage:
        if not _wait_until_it_answers(stage.function, events):
            return 1
        job, clock = options.plan.jobs[0], Clock()
        with waiting:
            hit = Sender(stage.function.url, stage.token).send(job, clock.now(), job.attempt_deadline)
        if hit.error is not None:
            raise EmulatorError(f"the function did not answer: {hit.error}")
        echo(json.dumps(hit.body, ensure_ascii=False))
        return 0 if hit.succeeded and hit.body.get("ok", True) else 1


class _Emulation:
    """The hits, from the first to the verdict."""

    def __init__(self, options: Options, stage: Stage, events: Events, screen: Screen) -> None:
        self._options = options
        self._stage = stage
        self._events = events
        self._screen = screen
        self._ledger = Ledger()
        self._dice = Dice()
        self._clock = Clock(options.plan.speed)
        faults = options.faults
        if options.all_that_can_be:
            faults = chaos.possible(faults, stage.server)
        self._faults = faults
        self._chaos = chaos.Chaos(faults, self._dice, stage.function, stage.server, stage.conninfo, screen.fault)
        self._sender = Sender(stage.function.url, stage.token)
        self._schedulers = [
            Scheduler(self._sender, job, clock=self._clock, answered=events.put, faults=faults, dice=self._dice)
            for job in options.plan.jobs
        ]

    def run(self) -> int:
        conninfo = self._stage.conninfo
        before = Before.read(conninfo)
        stuck: list[str] = []
        for scheduler in self._schedulers:
            scheduler.start()
        try:
            self._follow()
        finally:
            for scheduler in self._schedulers:
                scheduler.stop_hitting()
            self._chaos.end()
        if self._faults != NO_FAULTS:
            stuck = self._settle(before)
        self._stage.function.stop()
        self._last_answers()
        verdict = judge(conninfo, before, self._ledger, self._dice.done, stuck)
        self._show_rows()
        self._screen.verdict(verdict)
        self._screen.text("\nstopped")
        return 1 if verdict.violations else 0

    def _follow(self) -> None:
        """Prints a line per hit, and the rows at the end of the first screen, until told to stop or time is up."""
        began, seconds = time.monotonic(), self._options.seconds
        # Where it ends soon after, once is enough.
        screen_is_full = seconds is not None and seconds < 2 * _FIRST_SCREEN_SECONDS
        while seconds is None or time.monotonic() < began + seconds:
            self._stage.function.check()
            if self._stage.server is not None and not self._stage.server.running:
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
        rows = rows_in_the_database(self._stage.conninfo, openings=self._options.openings)
        self._screen.text(f"\n{rows}\n")

    def _enter(self, hit: Hit) -> None:
        self._ledger.enter(hit)
        self._screen.hit(hit)

    def _settle(self, before: Before) -> list[str]:
        """Hits in peace until no lease that has run out is left; answers those that stay."""
        job, deadline = self._options.plan.jobs[0], time.monotonic() + _SETTLE_SECONDS
        while stuck := stale(self._stage.conninfo, before):
            if not self._enter_what_came():
                return []  # told to stop once more: nobody waits for it
            if time.monotonic() > deadline:
                return stuck
            self._enter(self._sender.send(job, self._clock.now(), _ATTEMPT_TO_SETTLE_SECONDS, note="settling"))
            time.sleep(_SETTLE_PAUSE_SECONDS)
        return []

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


@contextmanager
def _staged(options: Options) -> Iterator[Stage]:
    # With one alone nobody could take over from a run that is stopped.
    workers = 2 if options.faults.hurt_processes else 1
    with staged(
        options.source.absolute(),
        options.target,
        options.port,
        options.plan.environment,
        workers=workers,
        oidc=options.oidc,
    ) as stage:
        yield stage


@contextmanager
def _stop_signals() -> Iterator[Events]:
    """Ctrl-C and SIGTERM become an event, so that nothing is interrupted half-way and all is stopped in order."""
    events: Events = queue.SimpleQueue()  # its put may be called from a signal handler
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), lambda *_: events.put(None)) for name in names}
    try:
        yield events
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _wait_until_it_answers(function: FunctionProcess, events: Events) -> bool:
    """False when it was told to stop meanwhile."""
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(function):
        if time.monotonic() > deadline:
            raise EmulatorError(f"the function does not answer at {function.url} after {_START_SECONDS:.0f} seconds")
        try:
            if events.get(timeout=0.05) is None:
                return False
        except queue.Empty:
            continue
    return True


def _answers(function: FunctionProcess) -> bool:
    try:
        return function.answers()
    except FunctionEnded as ended:
        raise NeverStarted(str(ended)) from None
