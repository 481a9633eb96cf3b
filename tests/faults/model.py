"""What the wall does, said again in a page of Python, for the machine that compares the two. Knows no SQL.

One schedule row and its runs. Time is two words: whether the lease is live, and whether the row is due.
"""

from dataclasses import dataclass, field
from uuid import UUID

ENDED = ("success", "partial", "failed", "interrupted")
NO_SCHEDULE, TAKEN, RUNNING, LOST = "CL002", "CL003", "CL004", "CL001"


class Refused(Exception):
    """The wall raises an error with that SQLSTATE, and nothing is changed."""


@dataclass
class Run:
    fence: int
    status: str = "running"
    released: bool = False


@dataclass
class Row:
    fence: int = 0
    holder: UUID | None = None
    live: bool = False
    due: bool = True
    paused: bool = False
    once: bool = False
    completed: bool = False
    failures: int = 0
    abandoned: int = 0
    run_count: int = 0
    last_status: str | None = None


@dataclass
class Model:
    row: Row | None = field(default_factory=Row)
    runs: dict[UUID, Run] = field(default_factory=dict)
    writing: UUID | None = None
    """Whose data transaction has the row locked."""
    writes: int = 0
    """Of the schedule row. Where this stands still, nothing may have changed."""
    moves: int = 0
    """Of next_run_at."""

    def there(self) -> Row:
        if self.row is None:
            raise Refused(NO_SCHEDULE)
        return self.row

    def write(self, *, moves: bool = False) -> None:
        self.writes += 1
        self.moves += moves

    def holds(self, request: UUID, fence: int) -> bool:
        return self.row is not None and (self.row.holder, self.row.fence) == (request, fence)

    def abandon(self) -> int:
        """Closes the run that is open; how many that were."""
        running = [run for run in self.runs.values() if run.status == "running"]
        for run in running:
            run.status = "abandoned"
        return len(running)

    def free(self) -> None:
        self.there().holder, self.there().live = None, False

    def reason(self, request: UUID, force: bool, known: bool) -> str | None:
        row = self.there()
        if row.completed or row.paused:
            return "completed" if row.completed else "paused"
        if row.holder != request:
            if row.live:
                return "locked"
            if not (row.due or force):
                return "not_due"
        if not known:
            return "unknown_action"
        return "locked" if self.writing else None

    def acquire(self, request: UUID, force: bool = False, known: bool = True) -> str | None:
        """Why not, or None: it holds the lease."""
        if reason := self.reason(request, force, known):
            return reason
        row = self.there()
        if row.holder == request:
            row.live = True
            self.write()
            return None
        if request in self.runs:
            return "locked"
        orphans = self.abandon()
        row.abandoned += orphans
        row.last_status = "abandoned" if orphans else row.last_status
        row.fence, row.holder, row.live = row.fence + 1, request, True
        self.runs[request] = Run(row.fence)
        self.write(moves=row.abandoned >= 3)
        row.due = row.due and row.abandoned < 3
        return None

    def claim_due(self, request: UUID, known: bool = True) -> str | None:
        row = self.row
        if request in self.runs:
            if row is None or row.holder != request:
                return "locked"
            return "locked" if self.acquire(request) else None
        if row is None or not known or row.completed or row.paused or row.live or not row.due:
            return "not_due"
        return self.acquire(request)

    def renew(self, request: UUID, fence: int) -> str:
        if not self.holds(request, fence):
            return "lost"
        if self.writing:
            return "busy"
        self.there().live = True
        self.write()
        return "renewed"

    def finish(self, request: UUID, fence: int, status: str, at_once: bool) -> str:
        if not self.holds(request, fence):
            run = self.runs[request]
            if run.fence == fence and run.status in ENDED and not run.released:
                return run.status
            raise Refused(LOST)
        row, done = self.there(), status in ("success", "partial")
        keeps_its_place = status == "interrupted" and row.due
        self.free()
        row.completed = row.once and done
        row.due = at_once or row.completed or keeps_its_place
        row.failures = 0 if done else row.failures + (status == "failed")
        row.abandoned, row.run_count, row.last_status = 0, row.run_count + 1, status
        self.runs[request].status = status
        self.write(moves=not keeps_its_place)
        return status

    def release(self, request: UUID) -> bool:
        if self.row is None or self.row.holder != request:
            return False
        self.free()
        self.runs[request].status, self.runs[request].released = "failed", True
        self.row.abandoned += 1
        self.write()
        return True

    def unlock(self, request: UUID | None) -> bool:
        row = self.there()
        if row.holder is None or request not in (None, row.holder):
            return False
        self.free()
        self.abandon()
        row.last_status = "abandoned"
        self.write()
        return True

    def recover(self, young: bool) -> int:
        """Young: what runs has not run for as long as is asked for."""
        row = self.row
        if row is None or row.holder is None or row.live or self.writing or young:
            return 0
        self.free()
        self.abandon()
        row.abandoned, row.last_status = row.abandoned + 1, "abandoned"
        self.write()
        return 1

    def pause(self, paused: bool) -> bool:
        row = self.there()
        changed, row.paused = row.paused != paused, paused
        self.writes += changed
        return changed

    def at_rest(self) -> Row:
        row = self.there()
        if row.live or self.writing:
            raise Refused(RUNNING)
        self.abandon()
        return row

    def create(self, replace: bool, once: bool, at_once: bool) -> bool:
        """Whether there was none."""
        old = self.row
        if old is None:
            fence = max((run.fence for run in self.runs.values()), default=0)
            self.row = Row(fence=fence, once=once, due=at_once)
        elif replace:
            self.at_rest()
            old.last_status = "abandoned" if old.holder else old.last_status
            self.free()
            old.once, old.completed, old.due, old.failures, old.abandoned = once, False, at_once, 0, 0
        else:
            raise Refused(TAKEN)
        self.write(moves=True)
        return old is None

    def delete(self) -> bool:
        self.at_rest()
        self.row = None
        self.write(moves=True)
        return True
