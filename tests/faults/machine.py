"""The machine that drives the SQL functions and the model of them, from several clients; after each step they must
agree.

Time is moved by ageing rows.
"""

from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.faults.model import ENDED, LOST, Model, Refused
from tests.schema.alerts import HERE
from tests.schema.calls import acquire, call, change, claim_due, create, expire, finish, make_due

CLIENTS = 3
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NUMBERS = count(1)

clients = st.integers(2, 1 + CLIENTS)
whose = st.integers(0, 3)
"""Which of the runs so far, counted from the newest."""
astray = st.sampled_from([0, 0, 0, 1, -1])
"""Added to the right fence: 0 for the right one."""
words = st.sampled_from(ENDED)
yes = st.booleans()
mostly = st.sampled_from([True, True, True, False])
kinds = st.sampled_from(["once", "10m..15m", "10m"])
watches = st.fixed_dictionaries({"pause_after": st.sampled_from([None, 1, 2]), "knows": mostly, "tells": mostly})


def sent(*, pause_after: int | None, knows: bool, tells: bool) -> dict[str, Any]:
    """The arguments of a finish. A caller that knows of breakers sends when to probe."""
    return {
        "pause_after": pause_after,
        "probe": DAY if knows or pause_after else None,
        "addresses": HERE if tells else None,
    }


class Machine(RuleBasedStateMachine):
    """One schedule of its own for each example, and clients with a connection each."""

    connections: list[psycopg.Connection]
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.name = f"job {next(NUMBERS)}"
        self.model = Model()
        self.requests: list[UUID] = []
        self.seen: tuple[int, int, Any] | None = None
        self.writer, self.time = self.connections[:2]
        self.say(self.time, "ensure_schedule")

    def teardown(self) -> None:
        self.writer.execute("rollback")
        for table in ("refresh_schedule", "refresh_alerts"):
            self.time.execute(f"delete from public.{table} where function_name = %s", [self.name])

    def say(self, conn: psycopg.Connection, verb: str, **more: Any) -> Any:
        return call(conn, verb, function_name=self.name, **more)[0]

    def run(self, number: int) -> tuple[UUID, int]:
        request = self.requests[-1 - number % len(self.requests)]
        return request, self.model.runs[request].fence

    def agree(self, model: Callable[[], Any], functions: Callable[[], Any]) -> Any:
        """Both give the same answer, or refuse with the same error."""
        type(self).steps += 1
        try:
            expected = model()
        except Refused as refused:
            expected = str(refused)
        try:
            answer = functions()
        except psycopg.Error as error:
            answer = error.sqlstate
        assert answer == expected, f"SQL answers {answer}, the model {expected}"
        return answer

    @rule(client=clients, force=yes, known=mostly, knows=yes)
    def acquire(self, client: int, force: bool, known: bool, knows: bool) -> None:
        conn, request, actions = self.connections[client], uuid4(), [self.name if known else "another"]
        reason = self.agree(
            lambda: self.model.acquire(request, force, known, knows=knows),
            lambda: acquire(conn, request, self.name, force=force, actions=actions, early=knows).reason,
        )
        self.requests += [request] if reason is None else []

    @rule(client=clients, known=mostly)
    def claim_due(self, client: int, known: bool) -> None:
        conn, request, action = self.connections[client], uuid4(), self.name if known else "another"
        reason = self.agree(
            lambda: self.model.claim_due(request, known),
            lambda: claim_due(conn, action, request_id=request).reason,
        )
        self.requests += [request] if reason is None else []

    @precondition(lambda self: self.requests)
    @rule(client=clients, number=whose, due=yes)
    def ask_again(self, client: int, number: int, due: bool) -> None:
        conn, (request, _) = self.connections[client], self.run(number)
        if due:
            self.agree(
                lambda: self.model.claim_due(request),
                lambda: claim_due(conn, self.name, request_id=request).reason,
            )
        else:
            self.agree(lambda: self.model.acquire(request), lambda: acquire(conn, request, self.name).reason)

    @precondition(lambda self: self.requests)
    @rule(client=clients, number=whose, beside=astray)
    def renew(self, client: int, number: int, beside: int) -> None:
        conn, (request, fence) = self.connections[client], self.run(number)
        self.agree(
            lambda: self.model.renew(request, fence + beside),
            lambda: self.say(conn, "renew_refresh_lock", request_id=request, fence=fence + beside, lease=HOUR),
        )

    @precondition(lambda self: self.requests)
    @rule(client=clients, number=whose, beside=astray, status=words, at_once=yes, watched=watches)
    def finish(
        self, client: int, number: int, beside: int, status: str, at_once: bool, watched: dict[str, Any]
    ) -> None:
        conn, (request, fence) = self.connections[client], self.run(number)
        if self.model.writing and self.model.holds(request, fence + beside):
            return  # It would wait for its own transaction.
        delay = timedelta(0) if at_once else HOUR
        self.agree(
            lambda: self.model.finish(request, fence + beside, status, at_once, **watched),
            lambda: finish(conn, request, fence + beside, status, self.name, delay=delay, **sent(**watched)).status,
        )

    @precondition(lambda self: self.requests and not self.model.writing)
    @rule(number=whose, beside=astray)
    def begin(self, number: int, beside: int) -> None:
        """A data transaction: its lock is the exclusion, whatever the clock says."""
        request, fence = self.run(number)
        self.writer.execute("begin")
        fenced = self.agree(
            lambda: None if self.model.holds(request, fence + beside) else LOST,
            lambda: self.say(self.writer, "assert_lease", request_id=request, fence=fence + beside) or None,
        )
        if fenced is None:
            self.model.writing = request
        else:
            self.writer.execute("rollback")

    @precondition(lambda self: self.model.writing)
    @rule(status=words, at_once=yes, commits=mostly)
    def end(self, status: str, at_once: bool, commits: bool) -> None:
        request = self.model.writing
        assert request is not None
        fence, delay = self.model.runs[request].fence, timedelta(0) if at_once else HOUR
        if commits:
            self.agree(
                lambda: self.model.finish(request, fence, status, at_once),
                lambda: finish(self.writer, request, fence, status, self.name, delay=delay).status,
            )
        self.writer.execute("commit" if commits else "rollback")
        self.model.writing = None

    @precondition(lambda self: self.requests)
    @rule(client=clients, number=whose)
    def release(self, client: int, number: int) -> None:
        conn, (request, _) = self.connections[client], self.run(number)
        if request != self.model.writing:
            self.agree(
                lambda: self.model.release(request),
                lambda: self.say(conn, "release_refresh_lock", request_id=request),
            )

    @precondition(lambda self: self.model.row and self.model.row.holder and not self.model.writing)
    @rule()
    def time_passes(self) -> None:
        expire(self.time, self.name)
        self.model.there().live = False
        self.model.write()

    @precondition(lambda self: self.model.row and not self.model.writing)
    @rule()
    def it_comes_due(self) -> None:
        make_due(self.time, self.name)
        self.model.comes_due()

    @precondition(lambda self: self.model.row and self.model.row.breaker and not self.model.writing)
    @rule()
    def the_probe_comes(self) -> None:
        past = "clock_timestamp() - interval '1 minute'"
        change(self.time, f"breaker_until = {past}", self.name)
        change(self.time, "next_run_at = breaker_until", self.name)
        self.model.probe_comes()

    @rule(client=clients)
    def look(self, client: int) -> None:
        """For what is to be told of rows; what is to be delivered stays where it is."""
        conn = self.connections[client]
        self.agree(
            self.model.look, lambda: call(conn, "claim_refresh_alerts", addresses=HERE, holder=uuid4()) and None
        )

    @rule(client=clients, older=st.sampled_from([timedelta(0), HOUR]))
    def recover(self, client: int, older: timedelta) -> None:
        conn = self.connections[client]
        self.agree(
            lambda: self.model.recover(young=bool(older)),
            lambda: call(conn, "recover_stale_dispatches", older_than=older)[0],
        )

    @precondition(lambda self: not self.model.writing)
    @rule(client=clients, paused=yes)
    def pause(self, client: int, paused: bool) -> None:
        conn, verb = self.connections[client], "pause_refresh" if paused else "resume_refresh"
        self.agree(self.model.pause if paused else self.model.resume, lambda: self.say(conn, verb))

    @precondition(lambda self: not self.model.writing)
    @rule(client=clients, number=st.none() | whose)
    def unlock(self, client: int, number: int | None) -> None:
        conn = self.connections[client]
        request = None if number is None or not self.requests else self.run(number)[0]
        self.agree(lambda: self.model.unlock(request), lambda: self.say(conn, "unlock_refresh", request_id=request))

    @rule(client=clients, replace=yes, kind=kinds, at_once=yes, attempts=st.sampled_from([None, 2]))
    def create(self, client: int, replace: bool, kind: str, at_once: bool, attempts: int | None) -> None:
        # The slot of a beat has come: whether it has decides nothing here.
        at_once, conn = at_once or kind == "10m", self.connections[client]
        # A band has no slots.
        attempts = None if kind == "10m..15m" else attempts
        every, delay = None if kind == "once" else kind, None if at_once else HOUR
        more = {"every": every, "delay": delay, "replace": replace, "attempts": attempts}
        self.agree(
            lambda: self.model.create(replace, kind == "once", at_once, beat=kind == "10m", attempts=attempts),
            lambda: create(conn, self.name, self.name, **more).created,
        )

    @precondition(lambda self: self.model.row is None)
    @rule(client=clients)
    def ensure(self, client: int) -> None:
        self.agree(
            lambda: "created" if self.model.create(replace=False, once=False, at_once=True) else "exists",
            lambda: self.say(self.connections[client], "ensure_schedule"),
        )

    @rule(client=clients)
    def delete(self, client: int) -> None:
        self.agree(lambda: self.model.delete(), lambda: self.say(self.connections[client], "delete_refresh"))

    @invariant()
    def sql_and_model_are_the_same(self) -> None:
        found = self.time.execute(_LOOK, {"name": self.name}).fetchone()
        assert found is not None
        row, runs, raw, alerts = found
        assert alerts == self.model.alerts, f"SQL tells {alerts}, the model {self.model.alerts}"
        model = self.model
        expected = model.row and {**asdict(model.row), "holder": model.row.holder and str(model.row.holder)}
        assert row == expected, f"SQL has {row}, the model {expected}"
        recorded = [[str(request), run.fence, run.status] for request, run in model.runs.items()]
        assert runs == recorded, f"SQL has {runs}, the model {recorded}"
        assert [run[1] for run in runs] == list(range(1, len(runs) + 1)), "the fence rises by one, without gaps"
        assert [run[2] for run in runs[:-1]].count("running") == 0, "at most one run is open, and it is the newest"
        if self.seen is not None:
            writes, moves, was = self.seen
            assert writes != model.writes or raw == was, "nothing was to be changed"
            assert moves != model.moves or _next(raw) == _next(was), "the next run moved by itself"
        self.seen = model.writes, model.moves, raw


def _next(raw: dict[str, Any] | None) -> Any:
    return raw and raw["next_run_at"]


_LOOK = """
select
  (
    select jsonb_build_object(
      'fence', s.fence, 'holder', s.locked_by, 'live', coalesce(s.locked_until > clock_timestamp(), false),
      'due', coalesce(s.next_run_at <= clock_timestamp(), true), 'paused', s.paused_at is not null, 'once', s.once,
      'beat', s.planned_from is not distinct from '10m', 'attempts', s.attempts, 'attempt', s.attempt,
      'breaker', case
        when s.breaker_until > clock_timestamp() then 'shut' when s.breaker_until is not null then 'probe'
      end,
      'put_off', coalesce(s.next_run_at <= s.breaker_until, false),
      'told', to_jsonb(array(select each from unnest(s.told) as t (each) order by each)),
      'completed', s.completed_at is not null, 'failures', s.failures, 'abandoned', s.abandoned,
      'run_count', s.run_count, 'last_status', s.last_status
    )
    from public.refresh_schedule s where s.function_name = %(name)s
  ),
  (
    select coalesce(jsonb_agg(jsonb_build_array(r.request_id, r.fence, r.status) order by r.fence), '[]')
    from public.refresh_runs r where r.function_name = %(name)s
  ),
  (select to_jsonb(s) from public.refresh_schedule s where s.function_name = %(name)s),
  array(select a.kind from public.refresh_alerts a where a.function_name = %(name)s order by a.id)
"""
