"""The hot look-ups read an index and not the table, with fifty thousand schedules in it."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.schema.calls import (
    LEASE,
    acquire,
    call,
    call_all,
    claim_due,
    claim_many,
    finish,
    finish_many,
    one,
    recover,
    transaction,
)

pytestmark = pytest.mark.thorough

ROWS = 50_000
HISTORY = 20_000

DUE = """
    select function_name
    from public.refresh_schedule
    where completed_at is null
      and paused_at is null
      and (next_run_at is null or next_run_at <= clock_timestamp())
    order by next_run_at nulls first
    limit 1
"""
# A volatile time cannot bound an index scan: where nothing is due, DUE reads every entry and this one the first.
FIRST = """
    select function_name
    from (
      select function_name, next_run_at
      from public.refresh_schedule
      where completed_at is null
        and paused_at is null
      order by next_run_at nulls first
      limit 1
    ) first
    where next_run_at is null or next_run_at <= clock_timestamp()
"""
EXPIRED = "select function_name from public.refresh_schedule where locked_until <= clock_timestamp()"


@pytest.fixture
def many(conn: psycopg.Connection) -> psycopg.Connection:
    """Schedules spread over the coming day, a few of them due, paused, completed or held."""
    conn.execute(
        """
        insert into public.refresh_schedule
          (function_name, action, next_run_at, once, completed_at, paused_at, locked_by, locked_until)
        select
          'job ' || i,
          'job',
          case when i %% 1000 > 0 then moment.at + (i - 100) * interval '2 seconds' end,
          i %% 10 = 1,
          case when i %% 10 = 1 then moment.at end,
          case when i %% 10 = 2 then moment.at end,
          case when i %% 500 = 3 then 'somebody' end,
          case when i %% 500 = 3 then moment.at + (i - 25000) * interval '1 minute' end
        from generate_series(1, %s) i, (select clock_timestamp() as at) moment
        """,
        [ROWS],
    )
    conn.execute("analyze public.refresh_schedule")
    return conn


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def plan_of(conn: psycopg.Connection, query: str) -> list[dict[str, Any]]:
    """The nodes of the plan, top first, as they really went."""
    found = one(conn, f"explain (analyze, format json) {query}")
    return list(nodes((json.loads(found) if isinstance(found, str) else found)[0]["Plan"]))


def read_by_index(plan: list[dict[str, Any]]) -> set[str]:
    assert not [node for node in plan if node["Node Type"] == "Seq Scan"], plan
    return {node["Index Name"] for node in plan if "Index Name" in node}


def looked_at(scan: dict[str, Any]) -> int:
    return int(scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0))


def whole_reads(conn: psycopg.Connection) -> int:
    """How often this session read the whole schedule since it last told the server."""
    text = "select seq_scan from pg_stat_xact_user_tables where relname = 'refresh_schedule'"
    return int(one(conn, text))


def test_the_due_look_up_reads_its_index_in_order(many: psycopg.Connection) -> None:
    plan = plan_of(many, DUE)
    assert read_by_index(plan) == {"refresh_schedule_due"}
    assert not [node for node in plan if "Sort" in node["Node Type"]], "the index has the order"
    assert looked_at(plan[-1]) == 1, "the first entry is the answer"

    many.execute("update public.refresh_schedule set next_run_at = next_run_at + interval '1 day'")
    many.execute("update public.refresh_schedule set next_run_at = 'infinity' where next_run_at is null")
    many.execute("analyze public.refresh_schedule")
    plan = plan_of(many, FIRST)
    assert read_by_index(plan) == {"refresh_schedule_due"}
    assert looked_at(plan[-1]) == 1, "the first entry says that nothing is due"


def test_the_lock_expiry_reads_its_index(many: psycopg.Connection) -> None:
    plan = plan_of(many, EXPIRED)

    assert read_by_index(plan) == {"refresh_schedule_lock_expiry"}
    assert looked_at(plan[-1]) <= ROWS / 500, "only rows that are held"


def test_a_claim_a_skip_and_a_finish_never_read_the_whole_schedule(many: psycopg.Connection) -> None:
    name = "job 1000"
    with transaction(many):
        before = whole_reads(many)
        request = uuid4()
        claim = acquire(many, request, name)
        assert claim.acquired
        assert acquire(many, uuid4(), name).reason == "locked"
        finish(many, request, claim.fence, function_name=name)
        assert claim_due(many, "job", "another").acquired
        assert claim_due(many, "another").reason == "not_due"
        assert whole_reads(many) == before


def test_recovery_never_reads_the_whole_schedule(many: psycopg.Connection) -> None:
    with transaction(many):
        before = whole_reads(many)
        assert recover(many) > 0
        assert whole_reads(many) == before


ACTIONS = [f"work {number}" for number in (1, 3, 5, 7, 9)]


@pytest.fixture(params=["counted", "never counted"])
def crowd(request: pytest.FixtureRequest, conn: psycopg.Connection) -> Callable[[str, str], None]:
    """Fills the schedule with known rows of that action and time; and as many that are unknown, due, and older.

    With statistics, and as it is right after, when the planner still knows nothing of it.
    """

    def fill(action: str, next_run_at: str) -> None:
        conn.execute("truncate public.refresh_schedule")
        conn.execute(
            f"""
            insert into public.refresh_schedule (function_name, action, next_run_at)
            select
              'job ' || i,
              case when i %% 2 = 0 then 'unheard of' else {action} end,
              case when i %% 2 = 0 then moment.at - interval '10 days' else {next_run_at} end
            from generate_series(1, %s) i, (select clock_timestamp() as at) moment
            """,
            [ROWS],
        )
        if request.param == "counted":
            conn.execute("analyze public.refresh_schedule")

    return fill


def cost_of(conn: psycopg.Connection, work: Callable[[], object], table: str = "refresh_schedule") -> tuple[int, int]:
    """How often the table was read whole and how many of its rows were looked up, once the plans are made."""
    text = f"select seq_scan, idx_tup_fetch from pg_stat_xact_user_tables where relname = '{table}'"
    for _ in range(6):
        work()
    with transaction(conn):
        before = conn.execute(text).fetchone() or (0, 0)
        work()
        after = conn.execute(text).fetchone() or (0, 0)
    return after[0] - before[0], after[1] - before[1]


def test_a_claim_of_what_is_due_looks_at_few_rows_however_many_there_are(
    conn: psycopg.Connection, crowd: Callable[[str, str], None]
) -> None:
    """Also when half of them are due before it, and none of this deployment's business."""
    for due in (True, False):
        crowd("'work ' || i %% 10", "null" if due else "moment.at + i * interval '1 hour'")

        whole, rows = cost_of(conn, lambda: claim_due(conn, *ACTIONS))

        assert claim_due(conn, *ACTIONS).acquired == due
        assert whole == 0
        # One of each action, those that are running by now, and the one that is claimed, some times over.
        assert rows < 40


def test_a_claim_of_any_action_looks_at_few_rows_however_many_actions_there_are(
    conn: psycopg.Connection, crowd: Callable[[str, str], None]
) -> None:
    crowd("'work ' || i", "moment.at - interval '20 days' + i * interval '1 second'")

    whole, rows = cost_of(conn, lambda: claim_due(conn))

    assert whole == 0
    assert rows < 250, "a hundred of the oldest, and one of each of their actions"


def test_what_is_due_is_counted_and_shown_without_reading_the_rest(
    conn: psycopg.Connection, crowd: Callable[[str, str], None]
) -> None:
    crowd("'work ' || i %% 10", "moment.at + i * interval '1 hour'")
    conn.execute("update public.refresh_schedule set paused_at = clock_timestamp() where id % 200 = 2")
    claimed = claim_due(conn).function_name

    whole, rows = cost_of(conn, lambda: call(conn, "due_refreshes", actions=ACTIONS))
    assert whole == 0
    assert rows < ROWS * 0.6, "those that are due, and few others"

    whole, rows = cost_of(conn, lambda: call(conn, "read_refresh_status"))
    assert whole == 0
    assert rows < 600
    shown = call(conn, "read_refresh_status")[0]["schedules"]
    assert len(shown) == 100
    assert [row["function_name"] for row in shown if row["state"] == "dispatching"] == [claimed]
    assert {row["action"] for row in shown} == {"unheard of"}, "what is due first"


@pytest.fixture(params=["counted", "never counted"])
def history(request: pytest.FixtureRequest, conn: psycopg.Connection) -> psycopg.Connection:
    """Thirty days of runs: a third of one schedule, a third of schedules with one run each, a third of names without
    a row; and one-shots that have completed."""
    conn.execute(
        """
        with run as (
          insert into public.refresh_runs
            (request_id, function_name, action, fence, trigger, started_at, finished_at, status)
          select
            gen_random_uuid(),
            case i %% 3 when 0 then 'busy' when 1 then 'kept ' || i else 'gone ' || i end,
            'work', i, 'run_due', clock_timestamp() - (%(rows)s - i) * interval '30 days' / %(rows)s,
            clock_timestamp(), 'success'
          from generate_series(1, %(rows)s) i
        )
        insert into public.refresh_schedule (function_name, action, once, completed_at, next_run_at, fence)
        select
          case i %% 3 when 0 then 'once ' || i when 1 then 'kept ' || i else 'done ' || i end,
          'work', i %% 3 <> 1,
          case when i %% 3 <> 1 then clock_timestamp() - (%(rows)s - i) * interval '30 days' / %(rows)s end,
          clock_timestamp() + interval '1 day', %(rows)s
        from generate_series(1, %(rows)s) i
        """,
        {"rows": HISTORY},
    )
    conn.execute(
        "insert into public.refresh_schedule (function_name, action, fence, run_count)"
        " values ('busy', 'work', %s, 1)",
        [HISTORY],
    )
    if request.param == "counted":
        conn.execute("analyze public.refresh_schedule, public.refresh_runs")
    return conn


def test_retention_looks_at_few_rows_however_long_the_history_is(history: psycopg.Connection) -> None:
    for retention, most in (("31 days", 0), ("10 days", 60)):
        deleted: list[int] = []

        def prune(retention: str = retention, deleted: list[int] = deleted) -> None:
            deleted.append(call(history, "prune_refresh_history", retention=retention, limit=20)[0])

        for table in ("refresh_runs", "refresh_schedule"):
            whole, rows = cost_of(history, prune, table)
            assert whole == 0, table
            # Twenty from each of two places, and for each a look at what keeps it, some times over.
            assert rows < 400, table
        assert max(deleted) <= most
        assert (max(deleted) > 0) == (most > 0)


def test_a_claim_its_end_and_the_status_do_not_read_the_history(history: psycopg.Connection) -> None:
    def run() -> None:
        request = uuid4()
        claim = acquire(history, request, "busy", force=True)
        finish(history, request, claim.fence, function_name="busy", retention="29 days")

    def status() -> None:
        call(history, "read_refresh_status")

    for table in ("refresh_runs", "refresh_schedule"):
        whole, rows = cost_of(history, run, table)
        assert whole == 0, table
        # The end of a run takes a hundred old runs of its name along.
        assert rows < 450, table
        whole, rows = cost_of(history, status, table)
        assert whole == 0, table
        assert rows < 1500, table


@pytest.fixture
def grown(conn: psycopg.Connection) -> psycopg.Connection:
    """Twenty thousand due schedules that have run before, in a session whose plans are from when there were none."""
    conn.execute("vacuum analyze public.refresh_schedule, public.refresh_runs")
    for _ in range(8):
        call(conn, "schedule_action", function_name=str(uuid4()), action="work")
        call(conn, "schedule_action", function_name=str(uuid4()), action="work")
        for batch in (1, 1):
            run_batch(conn, batch)
    conn.execute(
        """
        with run as (
          insert into public.refresh_runs
            (request_id, function_name, action, fence, trigger, started_at, finished_at, status)
          select gen_random_uuid(), 'job ' || i, 'work', 1, 'run_due', clock_timestamp(), clock_timestamp(), 'success'
          from generate_series(1, %(rows)s) i
        )
        insert into public.refresh_schedule (function_name, action, fence)
        select 'job ' || i, 'work', 1
        from generate_series(1, %(rows)s) i
        """,
        {"rows": HISTORY},
    )
    return conn


def run_batch(conn: psycopg.Connection, number: int, again: int = 1) -> None:
    requests = [uuid4() for _ in range(number)]
    for _ in range(again):
        claims = claim_many(conn, requests, "work")
        assert len(claims) == number
    names, ids = [claim.function_name for claim in claims], [claim.locked_by for claim in claims]
    fences = [claim.fence for claim in claims]
    call_all(
        conn, "renew_refresh_locks", function_names=names, request_ids=ids, fences=fences, leases=[LEASE] * number
    )
    ends = zip(names, ids, fences, strict=True)
    finish_many(
        conn,
        *(
            {"function_name": name, "request_id": request, "fence": fence, "status": "success", "delay": "1 day"}
            for name, request, fence in ends
        ),
    )


@pytest.mark.parametrize("again", [1, 2])
def test_a_batch_reads_its_own_rows_though_its_plans_are_from_when_there_were_none(
    grown: psycopg.Connection, again: int
) -> None:
    for table in ("refresh_runs", "refresh_schedule"):
        whole, rows = cost_of(grown, lambda: run_batch(grown, 50, again), table)
        assert whole == 0, table
        assert rows < again * 50 * 20, table


def test_a_single_run_reads_its_own_rows_though_its_plans_are_from_when_there_were_none(
    grown: psycopg.Connection,
) -> None:
    def run() -> None:
        request = uuid4()
        claim = acquire(grown, request, "job 7", force=True)
        finish(grown, request, claim.fence, function_name="job 7")

    for table in ("refresh_runs", "refresh_schedule"):
        whole, rows = cost_of(grown, run, table)
        assert whole == 0, table
        assert rows < 40, table
