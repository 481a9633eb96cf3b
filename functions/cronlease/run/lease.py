"""One run's lease as its own process sees it. Safe to use from any thread.

Nothing here protects the data: the fence in the database does. This only ends runs early that can no longer commit.

    HELD -> FENCED -> COMMITTING -> FINISHED    a block opens; its last question is asked; the run's end is committed
    FENCED, COMMITTING -> HELD                  a piece is committed, or the block is left without a commit
    HELD -> LOST                                somebody else has the lease
    HELD, FENCED, COMMITTING -> GIVEN_UP        the job did not end in time: nothing it still does counts
"""

import threading
import time
from enum import Enum, auto

from cronlease.cadence import written
from cronlease.errors import LeaseLost, TimeIsUp
from cronlease.run.attempt import Attempt


class State(Enum):
    HELD = auto()
    FENCED = auto()
    COMMITTING = auto()
    FINISHED = auto()
    LOST = auto()
    GIVEN_UP = auto()


_IN_A_BLOCK = (State.FENCED, State.COMMITTING)


class Lease:
    """Who holds what until when, on this process's monotonic clock."""

    def __init__(self, attempt: Attempt, fence: int) -> None:
        self.attempt = attempt
        self.function = attempt.function
        self.request_id = attempt.request_id
        self.limits = attempt.limits
        self.fence = fence
        self.run_until = attempt.asked_at + attempt.limits.max_run.total_seconds()
        # Counted from before the question was sent, so it ends before the database's own.
        self._held_until = attempt.asked_at + attempt.limits.lease.total_seconds()
        self._stop_at = attempt.stop_at
        self._state = State.HELD
        self._moving = threading.Lock()

    @property
    def lost(self) -> bool:
        """Somebody else has it, or it could not be renewed in time. Never while our transaction locks the row."""
        if self._state in (State.HELD, State.GIVEN_UP):
            return time.monotonic() >= self._held_until
        return self._state is State.LOST

    @property
    def overdue(self) -> bool:
        """The run is older than it may be."""
        return time.monotonic() >= self.run_until

    @property
    def interrupted(self) -> bool:
        """The run has to end, although its lease and its own time would last."""
        return time.monotonic() >= self._stop_at

    @property
    def finished(self) -> bool:
        """There is nothing left to keep or to lose."""
        return self._state is State.FINISHED

    @property
    def in_a_block(self) -> bool:
        """Our transaction has locked the row: that is the exclusion, and a renewal would only find the row busy."""
        return self._state in _IN_A_BLOCK

    @property
    def committing(self) -> bool:
        """A cancellation now would leave the commit unknown: whoever wants to cancel waits."""
        return self._state is State.COMMITTING

    @property
    def given_up(self) -> bool:
        return self._state is State.GIVEN_UP

    @property
    def seconds_left(self) -> float:
        """Until the run must be checked again, because its lease or its time ends."""
        kept = self.finished or self.in_a_block
        ends = self.run_until if kept else min(self.run_until, self._held_until)
        return max(0.0, ends - time.monotonic())

    @property
    def seconds_to_stop(self) -> float:
        return max(0.0, self._stop_at - time.monotonic())

    def check(self) -> None:
        """Raises LeaseLost or TimeIsUp when this run can no longer commit."""
        if self.lost:
            raise LeaseLost(f"run {self.request_id} no longer holds the lease of {self.function!r}")
        if self.interrupted:
            raise TimeIsUp("the process was told to stop, or has no more time for this run")
        if self.overdue:
            raise TimeIsUp(f"the run is older than {written(self.limits.max_run)}, CRONLEASE_MAX_RUN")

    def renewed(self, asked_at: float) -> None:
        self._held_until = max(self._held_until, asked_at + self.limits.lease.total_seconds())

    def hold_on(self) -> None:
        """The row is locked, or we have just unlocked it: leaves enough time for the next renewal to decide."""
        grace = self.limits.renew_every.total_seconds()
        self._held_until = max(self._held_until, time.monotonic() + grace)

    def interrupt(self) -> None:
        self._stop_at = 0.0

    def enter_block(self) -> None:
        self._move(State.FENCED, State.HELD)

    def commit(self) -> None:
        self._move(State.COMMITTING, State.FENCED)

    def finish(self) -> None:
        """Also from GIVEN_UP: the commit may have been on its way by then."""
        self._move(State.FINISHED, *_IN_A_BLOCK, State.GIVEN_UP)

    def leave_block(self) -> None:
        self.hold_on()
        self._move(State.HELD, *_IN_A_BLOCK)

    def lose(self) -> None:
        """Only from HELD: while a block has the row nobody can take it, and a lease that our own finish has freed
        only looks lost."""
        self._move(State.LOST, State.HELD)

    def give_up(self) -> None:
        self._move(State.GIVEN_UP, State.HELD, *_IN_A_BLOCK)

    def _move(self, to: State, *since: State) -> None:
        """Does nothing from any other state: two threads may want to move it, and the first one wins."""
        with self._moving:
            if self._state in since:
                self._state = to
