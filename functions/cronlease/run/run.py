"""One real run, as its job sees it: every public name here is for users."""

import json
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from cronlease import arguments
from cronlease.db.guard import lend
from cronlease.observe import telemetry
from cronlease.observe.redact import storable
from cronlease.outcome import Counts
from cronlease.process import spawn_guard
from cronlease.run.record import Record
from cronlease.run.transaction import Transaction

if TYPE_CHECKING:
    from subprocess import Popen

    from psycopg import AsyncConnection, Connection

# Shows a run's progress on a terminal: set by `cronlease run`, and by nobody else.
watcher: ContextVar[Callable[[str, int, int], None] | None] = ContextVar("watcher", default=None)


# Bytes of JSON that run.save accepts.
MOST_SAVED = 64 * 1024


class Lending:
    """An unfenced connection for a job: `async with` lends a pooled one; `with`, in a plain job's thread, opens a new
    one."""

    def __init__(self, record: Record) -> None:
        self._database = record.database
        self._limits = record.lease.limits
        self._blocks = record.blocks
        self._open: Any = None
        self._lent: Any = None

    async def __aenter__(self) -> "AsyncConnection":
        self._open = self._database.lent(self._blocks.patience(self._limits))
        lent: AsyncConnection = self._begin(await self._open.__aenter__())
        return lent

    async def __aexit__(self, *_: object) -> None:
        self._end()
        await self._open.__aexit__(None, None, None)

    def __enter__(self) -> "Connection":
        self._open = self._database.connect()
        lent: Connection = self._begin(self._open)
        return lent

    def __exit__(self, *_: object) -> None:
        self._end()
        self._open.close()

    def _begin(self, conn: Any) -> Any:
        self._blocks.held += 1
        self._lent = lend(conn)
        return self._lent

    def _end(self) -> None:
        self._blocks.held -= 1
        self._lent.leave()


class Run:
    """One real run, as its job sees it."""

    def __init__(self, action: str, args: dict[str, Any], record: Record) -> None:
        lease = record.lease
        self.function = lease.function
        self.action = action
        self.args = args
        self.request_id = lease.request_id
        self.fence = lease.fence
        self.lease = lease.limits.lease
        self._lease = lease
        self._record = record
        self._place = telemetry.here()

    @property
    def slot(self) -> datetime | None:
        """The slot of the beat or cron that this run serves; None for a band, for `hit` and for a forced run."""
        return self._record.served.slot

    @property
    def window(self) -> tuple[datetime | None, datetime] | None:
        """The last slot that succeeded, None before the first success, and this one: a job that covers its window
        catches up on what was missed. None for a run without a slot."""
        served = self._record.served
        return None if served.slot is None else (served.since, served.slot)

    @property
    def attempt(self) -> int:
        """Counts the runs of this slot, or without slots the runs since the last success; the first is 1."""
        return self._record.served.attempt

    @property
    def missed(self) -> int:
        """How many slots went by without a successful run since the last one that was served."""
        return self._record.served.missed

    @property
    def saved(self) -> Any:
        """What an earlier run saved, if no run has succeeded since; else None."""
        return self._record.served.saved

    def save(self, value: Any) -> None:
        """Keeps a small JSON value, committed with the surrounding run.transaction(): if this run does not finish,
        the next one finds the value in `saved`. A success clears it."""
        if self._record.blocks.open != "run.transaction()":
            raise RuntimeError("run.save(...) belongs inside run.transaction(): the value is kept when that commits")
        try:
            text = arguments.encode({"saved": value})
        except ValueError as error:
            raise TypeError(f"run.save(...) takes a value that JSON can hold: {error}") from None
        if len(text.encode()) > MOST_SAVED:
            raise ValueError(
                f"run.save(...) takes at most {MOST_SAVED} bytes of JSON: save where you are, not the data"
            )
        self._record.to_save = json.dumps(value)

    def commit(self) -> Transaction:
        """The fenced transaction that ends the run: what is written in it and the next run time commit together,
        or neither does. Entered at most once; `async with` gives an async connection, `with` a plain one."""
        if self._record.entered_commit:
            raise RuntimeError("run.commit() is entered at most once: use run.transaction() for earlier pieces")
        self._record.entered_commit = True
        return Transaction(self._record, finishes=True)

    def transaction(self) -> Transaction:
        """A fenced transaction for a piece of the work; leaving it commits the piece and renews the lease."""
        return Transaction(self._record)

    def connection(self) -> Lending:
        """An unfenced connection in autocommit mode, for reading and staging only. `async with` lends a pooled one:
        an instance lends at most six at the same time, those of blocks included, and whoever asks for more waits,
        though not for long inside a block. `with`, in a plain job, opens a new one."""
        return Lending(self._record)

    def check(self) -> None:
        """Raises LeaseLost or TimeIsUp when this run can no longer commit."""
        self._lease.check()

    def report(
        self,
        *,
        fetched: int | None = None,
        inserted: int | None = None,
        updated: int | None = None,
        unchanged: int | None = None,
        closed: int | None = None,
        hint: str | None = None,
    ) -> None:
        """Sets counts for the answer and the history, and a hint for whoever reads the answer. What is left out keeps
        its value."""
        given = Counts(fetched, inserted, updated, unchanged, closed)._asdict()
        counts = {name: count for name, count in given.items() if count is not None}
        for name, count in counts.items():
            if type(count) is not int or not 0 <= count < 2**63:
                raise TypeError(f"run.report({name}=...) takes a whole number from 0, not {count!r}")
        if not isinstance(hint, str | None):
            raise TypeError("run.report(hint=...) takes a text")
        self._record.counts = self._record.counts._replace(**counts)
        self._record.hint = hint or self._record.hint

    def progress(self, said: str, done: int = 0, of: int = 0) -> None:
        """Shows whoever watches the run what it is doing, and how much of that is done. Stored nowhere."""
        if (watch := watcher.get()) is not None:
            watch(f"{self.function}: {said}", done, of)

    def span(self, name: str, /, **attributes: object) -> telemetry.Span:
        """A part of the job as a span, where OpenTelemetry is set up: `with run.span("fetch", source=name) as span`,
        and inside it span.note(items=3) and span.fail("why"). An error that leaves the block is recorded, too."""
        return telemetry.span(name, attributes, self._place)

    def partial(self, reason: str) -> None:
        """Makes the run end as partial: it did its work, except for what the reason names."""
        if not isinstance(reason, str) or not reason.strip():
            raise TypeError("run.partial(...) takes a text that says what was left out")
        self._record.left_out = storable(reason)

    def backoff(self, failures: int) -> timedelta:
        """The wait after that many failures in a row by this function's rule, for parts of a job that fail alone."""
        return self._record.backoff(failures)

    def child_env(self) -> dict[str, str]:
        """The environment for a process that this run starts: the process cannot trigger another run, and has what
        its own SQL needs to call assert_lease."""
        return spawn_guard.child_env(self.function, self.request_id, self.fence)

    def http_headers(self) -> dict[str, str]:
        """Headers for requests that this run sends: a request that comes back to us is skipped."""
        return spawn_guard.http_headers(self.request_id)

    def spawn(self, command: Sequence[str], **options: Any) -> "Popen[Any]":
        """Starts a process with child_env as its environment; `env`, one of the options of Popen, adds to that."""
        from subprocess import Popen

        env = {**self.child_env(), **(options.pop("env", None) or {}), spawn_guard.SPAWNED: str(self.request_id)}
        return Popen(command, env=env, **options)  # noqa: S603 (the job's own command)
