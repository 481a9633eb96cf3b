"""P2: every interleaving of two runs and one expiry is safe. Two connections, step by step: nothing is up to chance.

A run has six steps: claim, renew, lock the row, write, finish, commit. With the expiry of whatever lease is held at
that moment these are 12,012 orders. A holder that was replaced goes on all the same, as one does that was paused.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from itertools import chain, combinations
from random import Random
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.faults.profile import Profile
from tests.faults.scene import UNFENCED
from tests.schema.calls import acquire, call, finish, schedule

EXPIRY = "E"
STEPS = "AAAAAABBBBBB"
ALL_ORDERS = 12_012
HOUR = timedelta(hours=1)
Script = Callable[["Hit"], Generator[None, None, str]]


class Hit:
    """One hit: what it does next, and how it ended."""

    def __init__(self, conn: psycopg.Connection, name: str, script: Script) -> None:
        self.conn, self.name, self.request = conn, name, uuid4()
        self.fence = 0
        self.ended = ""
        self._script = script(self)

    def step(self) -> None:
        try:
            next(self._script)
        except StopIteration as stop:
            self.ended = self.ended or stop.value or ""
        except psycopg.Error as error:
            self.ended = error.sqlstate or repr(error)
            self.conn.execute("rollback")

    def claim(self) -> str | None:
        claim = acquire(self.conn, self.request, self.name)
        self.fence = claim.fence or 0
        return None if claim.acquired else str(claim.reason)

    def say(self, verb: str, **more: Any) -> None:
        call(self.conn, verb, function_name=self.name, request_id=self.request, fence=self.fence, **more)

    def write(self) -> None:
        self.conn.execute("insert into public.effects values (%s, %s)", [self.name, self.request])

    def finish(self) -> None:
        finish(self.conn, self.request, self.fence, function_name=self.name, delay=HOUR)


def in_one_transaction(hit: Hit) -> Generator[None, None, str]:
    if reason := hit.claim():
        return reason
    yield
    hit.say("renew_refresh_lock", lease=HOUR)
    yield
    hit.conn.execute("begin")
    hit.say("assert_lease")
    yield
    hit.write()
    yield
    hit.finish()
    yield
    hit.conn.execute("commit")
    return "committed"


def finishing_afterwards(hit: Hit) -> Generator[None, None, str]:
    """The mistake: data and schedule are written in transactions of their own."""
    if reason := hit.claim():
        return reason
    yield
    hit.say("renew_refresh_lock", lease=HOUR)
    yield
    hit.say("assert_lease")
    yield
    hit.write()
    yield
    hit.finish()
    return "committed"


class Stage:
    """Two connections to run on and a third that lets time pass and looks."""

    def __init__(self, dsn: str, stack: ExitStack) -> None:
        # No step of either waits for the other: one that did would be told so by this, and end as nothing may.
        options = "-c statement_timeout=10s"
        connect = (psycopg.connect(dsn, autocommit=True, options=options) for _ in range(3))
        self.a, self.b, self.time = (stack.enter_context(closing(conn)) for conn in connect)
        self.time.execute("create table if not exists public.effects (name text, request_id uuid)")
        self._orders = 0

    def violations(self, order: str, script: Script = in_one_transaction) -> list[str]:
        self._orders += 1
        name = f"order {self._orders}"
        schedule(self.time, name)
        hits = {"A": Hit(self.a, name, script), "B": Hit(self.b, name, script)}
        expiring = False
        for step in order:
            if step == EXPIRY:
                expiring = True
            else:
                hits[step].step()
            # A row may be busy when its lease runs out: the time has passed all the same once it can be had.
            expiring = expiring and not self._expire(name)
        return self._look(name, hits)

    def _expire(self, name: str) -> bool:
        """Whether the row could be had: not while a transaction has it, which is the exclusion then."""
        return bool(self.time.execute(_EXPIRE, [name]).rowcount)

    def _look(self, name: str, hits: dict[str, Hit]) -> list[str]:
        seen = self.time.execute(_LOOK, {"name": name}).fetchone()
        assert seen is not None
        row, runs, effects = seen[0], seen[1] or [], seen[2] or []
        committed = [str(hit.request) for hit in hits.values() if hit.ended == "committed"]
        fences = sorted(hit.fence for hit in hits.values() if hit.fence)
        winner = max((run["fence"] for run in runs if run["status"] == "success"), default=None)
        checks = {
            "one run committed": len(committed) == 1,
            "what is written is what was committed": sorted(effects) == sorted(committed),
            "the newest holder committed": winner == max(fences),
            "the fence rose with each run": fences == [run["fence"] for run in runs] == [1, 2][: len(runs)],
            "every run has its end": Counter(run["status"] for run in runs)
            == Counter({"success": 1, "abandoned": len(runs) - 1}),
            "the next run moved once": (row["run_count"], row["delay"]) == (1, HOUR.total_seconds()),
            "the lease is free": row["locked_by"] is None,
            "the other one was told why": {hit.ended for hit in hits.values()} - {"committed"}
            <= {"locked", "not_due", "CL001"},
        }
        return [check for check, holds in checks.items() if not holds]


_EXPIRE = """
update public.refresh_schedule
set locked_until = case when locked_until is not null then clock_timestamp() - interval '1 second' end
where id = (select id from public.refresh_schedule where function_name = %s for no key update skip locked)
"""
_LOOK = """
select
  (
    select to_jsonb(s) || jsonb_build_object('delay', extract(epoch from s.next_run_at - s.last_run_at))
    from public.refresh_schedule s where s.function_name = %(name)s
  ),
  (
    select jsonb_agg(jsonb_build_object('fence', r.fence, 'status', r.status) order by r.fence)
    from public.refresh_runs r where r.function_name = %(name)s
  ),
  (select coalesce(jsonb_agg(e.request_id), '[]') from public.effects e where e.name = %(name)s)
"""


def all_orders() -> Iterator[str]:
    for expiry in range(13):
        for first in combinations(range(12), 6):
            runs = "".join("A" if place in first else "B" for place in range(12))
            yield runs[:expiry] + EXPIRY + runs[expiry:]


def some_orders(source: Random, count: int) -> Iterator[str]:
    for _ in range(count):
        yield "".join(source.sample(STEPS + EXPIRY, k=13))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_there_are_so_many_orders_and_no_two_are_the_same() -> None:
    orders = list(all_orders())
    assert len(orders) == len(set(orders)) == ALL_ORDERS
    assert set(chain(*map(Counter.items, map(Counter, orders)))) == {("A", 6), ("B", 6), (EXPIRY, 1)}


@pytest.mark.timeout(1800)
def test_every_interleaving_of_two_runs_and_an_expiry_is_safe(dsn: str, stack: ExitStack, profile: Profile) -> None:
    count = profile.n("P2")
    orders = all_orders() if count == ALL_ORDERS else some_orders(profile.random("P2"), count)
    stage = Stage(dsn, stack)
    found = {order: found for order in orders if (found := stage.violations(order))}
    profile.record("P2", count - len(found), count, violations=dict(list(found.items())[:20]))


def test_without_the_fence_there_is_an_order_that_is_not(dsn: str, stack: ExitStack) -> None:
    """The negative control: whoever asks is taken for the holder."""
    stage = Stage(dsn, stack)
    stage.time.execute(UNFENCED)
    assert "one run committed" in stage.violations("AAEBBBBBBAAAA")


def test_a_run_that_finishes_outside_of_its_datas_transaction_is_seen(dsn: str, stack: ExitStack) -> None:
    """Another: the fence holds, but what was written before it was asked stays."""
    found = Stage(dsn, stack).violations("AAAAEBBBBBBAA", finishing_afterwards)
    assert "what is written is what was committed" in found
