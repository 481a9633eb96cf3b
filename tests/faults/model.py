"""What the SQL functions do, restated in a page of Python, for the machine that compares the two. Knows no SQL.

One schedule row and its runs. Time is three questions: whether the lease is live, whether the row is due, and whether
the breaker is shut or lets a probe through.
"""

from dataclasses import dataclass, field
from uuid import UUID

ENDED = ("success", "partial", "failed", "interrupted")
NO_SCHEDULE, TAKEN, RUNNING, LOST = "CL002", "CL003", "CL004", "CL001"


class Refused(Exception):
    """The SQL function raises an error with that SQLSTATE, and nothing is changed."""


@dataclass
class Run:
    fence: int
    status: str = "running"
    released: bool = False
    forced: bool = False


@dataclass
class Row:
    fence: int = 0
    holder: UUID | None = None
    live: bool = False
    due: bool = True
    paused: bool = False
    once: bool = False
    beat: bool = False
    attempts: int | None = None
    attempt: int = 0
    breaker: str | None = None
    put_off: bool = False
    """Whether the next run is due no later than the breaker lets one through."""
    told: list[str] = field(default_factory=list)
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
    alerts: list[str] = field(default_factory=list)

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

    def tell(self, kind: str, told: list[str]) -> None:
        self.alerts.append(kind)
        self.there().told = sorted(set(told))

    def tell_abandoned(self) -> bool:
        row = self.there()
        if row.abandoned == 0 or row.last_status != "abandoned" or "abandoned" in row.told:
            return False
        self.tell("abandoned", [*row.told, "abandoned"])
        return True

    def tell_end(self, status: str, opens: bool) -> None:
        row = self.there()
        self.tell_abandoned()
        if status in ("success", "partial"):
            if row.told:
                self.tell("recovered", [])
        elif status == "failed":
            kind = "breaker_open" if opens else "failing"
            if kind not in row.told:
                self.tell(kind, [*row.told, kind, "failing"])

    def look(self) -> None:
        """Somebody looks for what is to be told."""
        if self.row is not None and not self.row.paused and not self.writing and self.tell_abandoned():
            self.write()

    def reason(self, request: UUID, force: bool, known: bool, knows: bool) -> str | None:
        row = self.there()
        if row.completed or row.paused:
            return "completed" if row.completed else "paused"
        if row.holder != request:
            if row.live:
                return "locked"
            if row.breaker == "shut" and not force:
                return "breaker_open" if knows else "not_due"
            if not ((row.due and not self.spent()) or force):
                return "not_due"
        if not known:
            return "unknown_action"
        return "locked" if self.writing else None

    def limit(self) -> int | None:
        """How many attempts it has; a beat has three where nobody says."""
        return self.there().attempts or (3 if self.there().beat else None)

    def spent(self) -> bool:
        limit = self.limit() if self.there().once or self.there().beat else None
        return limit is not None and self.there().attempt >= limit

    def acquire(self, request: UUID, force: bool = False, known: bool = True, *, knows: bool = False) -> str | None:
        """Why not, or None: it holds the lease. Knows: the caller's version has heard of breakers."""
        if reason := self.reason(request, force, known, knows):
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
        row.attempt += not force
        self.runs[request] = Run(row.fence, forced=force)
        self.write(moves=row.abandoned >= 3)
        if row.abandoned >= 3:
            row.due, row.put_off = False, row.breaker == "shut"
        return None

    def claim_due(self, request: UUID, known: bool = True) -> str | None:
        row = self.row
        if request in self.runs:
            if row is None or row.holder != request:
                return "locked"
            return "locked" if self.acquire(request) else None
        if row is None or not known or row.completed or row.paused or row.live or not row.due:
            return "not_due"
        if row.breaker == "shut" or self.spent():
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

    def finish(
        self,
        request: UUID,
        fence: int,
        status: str,
        at_once: bool,
        *,
        pause_after: int | None = None,
        knows: bool = False,
        tells: bool = False,
    ) -> str:
        if not self.holds(request, fence):
            run = self.runs[request]
            if run.fence == fence and run.status in ENDED and not run.released:
                return run.status
            raise Refused(LOST)
        row, run, done = self.there(), self.runs[request], status in ("success", "partial")
        failures = 0 if done else row.failures + (status == "failed")
        is_out = status == "failed" and self.limit() is not None and row.attempt >= (self.limit() or 0)
        opens = status == "failed" and not (row.once and is_out)
        opens = opens and (row.breaker is not None and not knows if pause_after is None else failures >= pause_after)
        if tells:
            self.tell_end(status, opens)
        self.free()
        self.plan_end(status, at_once, opens, leaves=row.beat and run.forced)
        if not (row.beat and run.forced):
            self.count_attempt(status, opens, run.forced)
        row.completed = row.once and done
        row.paused = row.paused or (row.once and is_out)
        row.failures, row.abandoned, row.run_count, row.last_status = failures, 0, row.run_count + 1, status
        run.status = status
        return status

    def plan_end(self, status: str, at_once: bool, opens: bool, leaves: bool) -> None:
        """When it is due next. A forced run of a beat leaves the next slot where it is."""
        row, done = self.there(), status in ("success", "partial")
        was_put_off = row.breaker is not None and row.put_off
        stays = row.breaker if status == "interrupted" else None
        keeps_its_place = status == "interrupted" and row.due
        row.breaker = "shut" if opens else stays
        self.write(moves=not keeps_its_place or leaves)
        if opens or (leaves and row.breaker == "shut"):
            row.due, row.put_off = False, True
        elif leaves and row.breaker is None:
            row.due, row.put_off = row.due or was_put_off, False
        elif not leaves and not keeps_its_place:
            row.due, row.put_off = at_once or (row.once and done), row.breaker == "shut"
        row.put_off = row.put_off and row.breaker is not None

    def count_attempt(self, status: str, opens: bool, forced: bool) -> None:
        row = self.there()
        if status in ("success", "partial") or (opens and row.beat):
            row.attempt = 0
        elif status == "interrupted" and not forced:
            row.attempt = max(0, row.attempt - 1)

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

    def pause(self) -> bool:
        row = self.there()
        changed, row.paused = not row.paused, True
        self.writes += changed
        return changed

    def resume(self) -> bool:
        """Ends a pause and closes the breaker: what that has put off is due."""
        row = self.there()
        if not row.paused and row.breaker is None:
            return False
        row.told = [kind for kind in row.told if kind != "breaker_open"]
        row.due = row.due or (row.breaker is not None and row.put_off)
        row.paused, row.breaker, row.put_off = False, None, False
        row.attempt = 0 if row.once else row.attempt
        self.write(moves=True)
        return True

    def probe_comes(self) -> None:
        self.there().breaker, self.there().due, self.there().put_off = "probe", True, True
        self.write(moves=True)

    def comes_due(self) -> None:
        self.there().due, self.there().put_off = True, self.there().breaker == "shut"
        self.write(moves=True)

    def at_rest(self) -> Row:
        row = self.there()
        if row.live or self.writing:
            raise Refused(RUNNING)
        self.abandon()
        return row

    def create(
        self, replace: bool, once: bool, at_once: bool, *, beat: bool = False, attempts: int | None = None
    ) -> bool:
        """Whether there was none."""
        old = self.row
        if old is None:
            fence = max((run.fence for run in self.runs.values()), default=0)
            self.row = Row(fence=fence, once=once, due=at_once, beat=beat, attempts=attempts)
        elif replace:
            self.at_rest()
            old.last_status = "abandoned" if old.holder else old.last_status
            self.free()
            old.once, old.completed, old.due, old.failures, old.abandoned = once, False, at_once, 0, 0
            old.beat, old.attempts, old.attempt, old.breaker, old.put_off = beat, attempts, 0, None, False
            old.told = []
        else:
            raise Refused(TAKEN)
        self.write(moves=True)
        return old is None

    def delete(self) -> bool:
        self.at_rest()
        self.row = None
        self.write(moves=True)
        return True
