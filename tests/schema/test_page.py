"""What the status page reads, in one bounded question, and the record of what people did."""

from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.schema.calls import acquire, call, finish, one, schedule, transaction

AHEAD = "clock_timestamp() + interval '1 hour'"
LONG_AGO = "clock_timestamp() - interval '1 hour'"
HELD = f"locked_by = 'somebody', locked_until = {AHEAD}"
PAUSED = "paused_at = clock_timestamp()"

HEALTH = {
    "never ran": ("", "ok"),
    "its time has come": ("next_run_at = clock_timestamp()", "ok"),
    "waits": (f"next_run_at = {AHEAD}", "ok"),
    "nobody came": (f"next_run_at = {LONG_AGO}, late_at = {LONG_AGO}", "late"),
    "its time went by": (f"next_run_at = {LONG_AGO}, late_at = {AHEAD}", "ok"),
    "its holder is gone": (f"locked_by = 'somebody', locked_until = {LONG_AGO}", "stale"),
    "runs": (HELD, "running"),
    "runs again after failures": (f"{HELD}, failures = 2", "running"),
    "failed": (f"failures = 1, next_run_at = {AHEAD}", "failing"),
    "failed, and nobody came": (f"failures = 1, next_run_at = {LONG_AGO}, late_at = {LONG_AGO}", "failing"),
    "stopped": (f"failures = 5, breaker_until = {AHEAD}, next_run_at = {AHEAD}", "breaker_open"),
    "paused": (PAUSED, "paused"),
    "paused after failures": (f"{PAUSED}, failures = 3", "paused"),
    "paused while it runs": (f"{PAUSED}, {HELD}", "running"),
    "paused, and its holder is gone": (f"{PAUSED}, locked_by = 'somebody', locked_until = {LONG_AGO}", "paused"),
    "completed": ("once = true, completed_at = clock_timestamp()", "completed"),
}


def page(conn: psycopg.Connection, **more: Any) -> dict[str, Any]:
    document: dict[str, Any] = call(conn, "read_refresh_page", **more)[0]
    return document


def names(conn: psycopg.Connection, **more: Any) -> list[str]:
    return [row["function_name"] for row in page(conn, **more)["schedules"]]


@pytest.fixture
def each(conn: psycopg.Connection) -> psycopg.Connection:
    """A schedule in each health."""
    for name, (changes, _) in HEALTH.items():
        schedule(conn, name, changes)
    return conn


def test_each_schedule_is_in_one_health_and_what_needs_a_person_comes_first(each: psycopg.Connection) -> None:
    shown = page(each)
    healths = [row["health"] for row in shown["schedules"]]

    assert {row["function_name"]: row["health"] for row in shown["schedules"]} == {
        name: health for name, (_, health) in HEALTH.items()
    }
    assert shown["counts"] == {health: healths.count(health) for health in set(healths)}
    order = ["breaker_open", "failing", "stale", "late", "running", "ok", "paused", "completed"]
    assert healths == sorted(healths, key=order.index)
    for health in order:
        assert set(names(each, health=health)) == {name for name, (_, is_so) in HEALTH.items() if is_so == health}


def test_the_pages_together_show_each_schedule_once(each: psycopg.Connection) -> None:
    pages = [page(each, page=number, size=6) for number in (1, 2, 3)]
    shown = [row["function_name"] for document in pages for row in document["schedules"]]

    assert shown == names(each)
    assert [document["more"] for document in pages] == [True, True, False]
    assert page(each, page=3, size=6)["counts"] == page(each)["counts"]


def test_a_search_takes_its_text_as_it_is(conn: psycopg.Connection) -> None:
    for name in ("Prices of Oslo", "oslo 100%", "oslo_prices", "osloXprices", r"os\lo", "bergen"):
        schedule(conn, name)

    assert set(names(conn, search="OSLO")) == {"oslo 100%", "oslo_prices", "osloXprices", "Prices of Oslo"}
    assert names(conn, search="OSLO")[-1] == "Prices of Oslo", "what begins with it comes first"
    assert names(conn, search="oslo_") == ["oslo_prices"]
    assert names(conn, search="100%") == ["oslo 100%"]
    assert names(conn, search="os\\l") == [r"os\lo"]
    assert names(conn, search="oslo", health="paused") == []
    assert page(conn, search="nobody has it")["schedules"] == []


def test_a_search_says_where_it_did_not_look_at_every_name(conn: psycopg.Connection) -> None:
    for number in range(6):
        schedule(conn, f"job {number} of oslo")

    assert page(conn, search="oslo")["complete"]
    within = page(conn, search="oslo", reach=3)
    assert len(within["schedules"]) == 3
    assert not within["complete"]
    assert names(conn, search="job 5", reach=3) == ["job 5 of oslo"], "the beginning of a name is found anywhere"


def run(conn: psycopg.Connection, name: str, status: str) -> None:
    request = uuid4()
    claim = acquire(conn, request, name, force=True)
    finish(conn, request, claim.fence, status, name)


def test_the_newest_runs_are_shown_oldest_first(conn: psycopg.Connection) -> None:
    schedule(conn, "job")
    for status in ("success", "failed", "partial", "success"):
        run(conn, "job", status)
    acquire(conn, uuid4(), "job", force=True)

    (row,) = page(conn, runs=4)["schedules"]
    assert [status for status, _ in row["runs"]] == ["failed", "partial", "success", "running"]
    assert row["runs"][-1][1] is None
    details = call(conn, "read_refresh_schedule", function_name="job", runs=2)[0]
    assert [run["status"] for run in details["runs"]] == ["running", "success"]
    assert details["schedule"]["health"] == "running"
    assert call(conn, "read_refresh_schedule", function_name="nobody")[0]["schedule"] is None


def test_args_are_left_out_where_they_are_for_fewer_eyes(conn: psycopg.Connection) -> None:
    schedule(conn, "job", """args = '{"key": "secret"}'""")
    run(conn, "job", "success")

    assert "secret" in str(call(conn, "read_refresh_schedule", function_name="job")[0])
    assert "secret" not in str(call(conn, "read_refresh_schedule", function_name="job", with_args=False)[0])
    assert "secret" not in str(page(conn))


def operations(conn: psycopg.Connection) -> list[tuple[Any, ...]]:
    text = "select operation, actor, reason, request_id from public.refresh_operations order by id"
    return conn.execute(text).fetchall()


def test_what_people_do_is_recorded_with_who_did_it(conn: psycopg.Connection) -> None:
    schedule(conn, "job")
    request = uuid4()
    acquire(conn, request, "job")
    call(conn, "pause_refresh", function_name="job", reason="the feed is down", actor="ann")
    call(conn, "pause_refresh", function_name="job", actor="ben")
    call(conn, "resume_refresh", function_name="job", actor="ben")
    call(conn, "resume_refresh", function_name="job", actor="ben")
    call(conn, "unlock_refresh", function_name="job", request_id=uuid4(), actor="cleo")
    call(conn, "unlock_refresh", function_name="job", request_id=request, actor="cleo", reason="it hangs")
    call(conn, "delete_refresh", function_name="job")

    somebody = one(conn, "select session_user::text")
    assert operations(conn) == [
        ("pause", "ann", "the feed is down", None),
        ("resume", "ben", None, None),
        ("unlock", "cleo", "it hangs", UUID(str(request))),
        ("delete", somebody, None, None),
    ], "only what changed something"


def test_a_record_is_kept_for_a_year(conn: psycopg.Connection) -> None:
    schedule(conn, "job")
    for actor in ("old", "young"):
        call(conn, "record_refresh_operation", function_name="job", operation="run", actor=actor)
    conn.execute("update refresh_operations set done_at = done_at - interval '366 days' where actor = 'old'")
    call(conn, "record_refresh_operation", function_name="job", operation="run", actor="new")

    assert [actor for _, actor, _, _ in operations(conn)] == ["young", "new"]


ROWS = 200_000


def cost(conn: psycopg.Connection, **question: Any) -> tuple[int, int]:
    """How often a table was read whole, and how many of its rows were fetched."""
    text = """
        select sum(seq_scan)::bigint, sum(coalesce(idx_tup_fetch, 0))::bigint
        from pg_stat_xact_user_tables
        where relname in ('refresh_schedule', 'refresh_runs')
    """
    with transaction(conn):
        before = conn.execute(text).fetchone() or (0, 0)
        page(conn, **question)
        after = conn.execute(text).fetchone() or (0, 0)
    return after[0] - before[0], after[1] - before[1]


@pytest.mark.thorough
@pytest.mark.parametrize("counted", [True, False])
def test_a_page_looks_at_few_rows_however_many_there_are(conn: psycopg.Connection, counted: bool) -> None:
    conn.execute(
        """
        insert into public.refresh_schedule
          (function_name, action, next_run_at, once, completed_at, paused_at, failures, last_run_at, fence, late_at)
        select
          'job ' || i,
          'job',
          moment.at + (i - 1000) * interval '2 seconds',
          i %% 10 = 1,
          case when i %% 10 = 1 then moment.at end,
          case when i %% 10 = 2 then moment.at end,
          case when i %% 10 = 3 then 2 else 0 end,
          moment.at - i * interval '1 second',
          1,
          moment.at + (i - 500) * interval '2 seconds'
        from generate_series(1, %s) i, (select clock_timestamp() as at) moment
        """,
        [ROWS],
    )
    conn.execute(
        """
        insert into public.refresh_runs
          (request_id, function_name, action, fence, trigger, started_at, finished_at, status)
        select gen_random_uuid(), s.function_name, s.action, 1, 'test', s.last_run_at, s.last_run_at, 'success'
        from public.refresh_schedule s
        """
    )
    if counted:
        conn.execute("analyze public.refresh_schedule, public.refresh_runs")
    # Of each of eight healths at most p_reach rows are looked at, then what is shown and its runs.
    healths = (None, "breaker_open", "failing", "stale", "late", "running", "ok", "paused", "completed")
    for health in healths:
        whole, rows = cost(conn, health=health, reach=2000)
        assert whole == 0, health
        assert rows < 8 * 2000 + 5000, health
    for search in ("job 1999", "99", "nobody"):
        whole, rows = cost(conn, search=search, reach=2000)
        assert whole == 0, search
        assert rows < 2 * 2000 + 1000 + 5000, search
    assert "job 199999" in names(conn, search="job 199999", reach=10)
