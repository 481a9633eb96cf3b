"""Functions of a stranger with the names of ours: none is ever called in their place (D4)."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from cronlease.db import alerts, batches, functions, operations, plans, queries, schedule
from cronlease.db.ask import ask_sync
from cronlease.db.queries import Query
from cronlease.errors import Ambiguous
from cronlease.outcome import Counts, Status
from tests.schema.calls import one

OURS = """
  select p.proname, array_agg(a.name order by a.place) as names, array_agg(t.typname::text order by a.place) as types
  from pg_proc p
  cross join lateral unnest(p.proargnames[:p.pronargs], p.proargtypes::oid[]) with ordinality as a (name, type, place)
  join pg_type t on t.oid = a.type
  where p.pronamespace = 'public'::regnamespace
    and p.prokind = 'f'
  group by p.oid, p.proname
"""
EVIL = """
  create function public.{name}({arguments}) returns text language plpgsql as $$
  begin
    raise exception 'a function of a stranger was called' using errcode = 'XX999';
  end
  $$
"""
WATCHED: dict[str, Any] = {"pause_after": 3, "probe": "6h", "late_alert": timedelta(hours=1)}


def make_overloads(conn: psycopg.Connection, default: str) -> int:
    """For each of our functions one of the same name and arguments, all of them texts."""
    made = 0
    for name, names, types in conn.execute(OURS).fetchall():
        # Where ours takes nothing but texts, only another kind of text is another function.
        kind = "varchar" if set(types) == {"text"} else "text"
        arguments = sql.SQL(", ").join(
            sql.SQL(f"{{}} {kind} {default}").format(sql.Identifier(each)) for each in names
        )
        conn.execute(sql.SQL(EVIL).format(name=sql.Identifier(name), arguments=arguments))
        made += 1
    return made


RULES = plans.Rules("6h", 3, timedelta(minutes=10))


def calls() -> list[Query[Any]]:
    """Every call that Python makes, in an order in which each succeeds."""
    request, due, lease = uuid4(), uuid4(), timedelta(minutes=5)
    claim = functions.acquire_refresh_lock(
        "job",
        request,
        lease,
        max_run=lease,
        force=True,
        trigger="test",
        job_name="nightly",
        schedule_time="now",
        args={"a": 1},
        actions=["job"],
        parent=uuid4(),
        rules=RULES,
        delivery="nightly now",
        delivery_at=datetime.now(UTC),
    )
    end = functions.finish_refresh_run(
        "job",
        request,
        1,
        Status.PARTIAL,
        lease,
        error="half of it",
        counts=Counts(1, 2, 3, 4, 5),
        retention=timedelta(days=30),
        rules=RULES,
        slot_at=datetime.now(UTC),
        watch=alerts.Watch(3, lease, lease, ("here",)),
    )
    actions = ("job",)
    return [
        functions.ensure_schedule("job", "hit"),
        claim,
        plans.serve_refresh_slot("job", request, 1, datetime.now(UTC), 3),
        functions.renew_refresh_lock("job", request, 1, lease, '{"page": 3}'),
        functions.assert_lease("job", request, 1),
        end,
        functions.due_refreshes(actions, [RULES]),
        plans.unplanned_refreshes(actions, [RULES]),
        plans.plan_refresh(
            "job", "6h", None, "6h", slot_at=datetime.now(UTC), delay=lease, attempts=3, late_after=lease
        ),
        alerts.claim_refresh_alerts(["here"], due),
        alerts.settle_refresh_alerts(due, delivered=[1], failed=[2], unsent=[3]),
        alerts.read_refresh_health(),
        batches.renew_refresh_locks([batches.Held("job", due, 1, lease)]),
        batches.finish_refresh_runs([end]),
        batches.release_refresh_locks([due]),
        batches.claim_due_refreshes(
            [due], actions, [lease], [lease], trigger="test", max_run=lease, parent=uuid4(), rules=[RULES]
        ),
        functions.release_refresh_lock("job", due),
        functions.release_refresh_lock(None, due),
        functions.read_refresh_status(),
        operations.pause_refresh("job", "why"),
        operations.resume_refresh("job"),
        operations.unlock_refresh("job", due),
        operations.recover_stale_dispatches(lease),
        operations.delete_refresh("job"),
    ]


@pytest.fixture
def stranger(dsn: str, conn: psycopg.Connection) -> psycopg.Connection:
    """Whoever may create things in the schema public; which role it is does not matter to who is called."""
    conn.execute("grant create on schema public to public")
    return conn


def test_no_overload_of_a_stranger_is_called(conn: psycopg.Connection, stranger: psycopg.Connection) -> None:
    assert make_overloads(stranger, "") > 25
    for query in calls():
        ask_sync(conn, query)
    schedule.schedule_action(conn, "another", "job", args={"b": 2}, delay="1h", every="10m", replace=True, **WATCHED)


def test_one_that_fits_as_well_as_ours_stops_a_call_and_is_not_called_either(
    conn: psycopg.Connection, stranger: psycopg.Connection
) -> None:
    """With a default for every argument some calls are ambiguous: they fail, and nothing runs."""
    ask_sync(conn, functions.ensure_schedule("job"))
    make_overloads(stranger, "default null")
    for query in calls():
        with suppress(Ambiguous):
            ask_sync(conn, query)


def test_an_untyped_call_would_be_a_strangers(conn: psycopg.Connection, stranger: psycopg.Connection) -> None:
    """The negative control: what Python sent before it said its types."""
    make_overloads(stranger, "default null")
    text = "select public.acquire_refresh_lock(p_function_name => %s, p_request_id => %s, p_lease => %s)"
    with pytest.raises(psycopg.Error, match="a function of a stranger was called"):
        conn.execute(text, ["job", str(uuid4()), "5 minutes"])


def test_the_types_that_are_sent_are_those_of_the_functions(conn: psycopg.Connection) -> None:
    spelt = {"int4": "integer", "int8": "bigint", "bool": "boolean"}
    spelt |= {f"_{kind}": f"{spelt.get(kind, kind)}[]" for kind in ("text", "interval", "int4", "int8", "uuid")}
    asked = {name for query in calls() for name in re.findall(r"public\.(\w+)", query.text)} | {"schedule_action"}
    for name, names, types in conn.execute(OURS).fetchall():
        if name in asked:
            for argument, kind in zip(names, types, strict=True):
                if argument in queries._TYPES:
                    assert queries._TYPES[argument] == spelt.get(kind, kind), f"{name} {argument}"
    assert one(conn, "select count(*) from pg_proc where proname = any (%s)", [list(asked)]) == len(asked)
