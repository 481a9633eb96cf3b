"""History and completed one-shots do not grow forever, and what is still needed of them stays."""

from datetime import timedelta
from uuid import UUID, uuid4

import psycopg

from tests.schema.calls import acquire, call, create, finish, holding, make_due, one, runs, schedule, transaction

DAY = timedelta(days=1)
INSERT = """
    insert into public.refresh_runs
      (function_name, request_id, action, fence, trigger, started_at, finished_at, status)
"""


def prune(conn: psycopg.Connection, **more: object) -> int:
    return int(call(conn, "prune_refresh_history", **{"retention": DAY, **more})[0])


def ran(conn: psycopg.Connection, name: str, days_ago: int, status: str = "success") -> UUID:
    """A run of that name, and when it was."""
    request = uuid4()
    make_due(conn, name)
    fence = acquire(conn, request, name).fence
    if status != "running":
        finish(conn, request, fence, status, function_name=name)
    conn.execute(
        "update public.refresh_runs set started_at = started_at - %s::interval where request_id = %s",
        [timedelta(days=days_ago), request],
    )
    return request


def kept(conn: psycopg.Connection) -> set[UUID]:
    return {request for (request,) in conn.execute("select request_id from public.refresh_runs")}


def test_old_runs_of_every_name_are_deleted_and_the_newest_of_a_name_with_a_row_stays(
    conn: psycopg.Connection,
) -> None:
    schedule(conn, "a")
    schedule(conn, "b")
    ran(conn, "a", 5)
    ran(conn, "a", 4)
    ran(conn, "b", 3)
    newest = {ran(conn, "a", 2), ran(conn, "b", 2)}
    assert prune(conn) == 3
    assert kept(conn) == newest
    conn.execute("delete from public.refresh_schedule where function_name = 'b'")
    assert prune(conn) == 1, "nobody takes its fence from it any more"
    assert prune(conn, retention=timedelta(days=30)) == 0


def test_a_run_that_is_recorded_as_running_is_never_deleted(conn: psycopg.Connection) -> None:
    schedule(conn, "a")
    running = ran(conn, "a", 400, "running")
    conn.execute("delete from public.refresh_schedule")
    assert prune(conn) == 0
    assert kept(conn) == {running}


def test_the_end_of_a_run_leaves_an_older_one_that_is_recorded_as_running(conn: psycopg.Connection) -> None:
    """Left without a lease, it is for recover to close."""
    schedule(conn, "a")
    running, old = ran(conn, "a", 20), ran(conn, "a", 10)
    conn.execute(
        "update public.refresh_runs set status = 'running', finished_at = null where request_id = %s", [running]
    )
    request = uuid4()
    make_due(conn, "a")
    finish(conn, request, acquire(conn, request, "a").fence, function_name="a", retention=DAY)
    assert old not in kept(conn)
    assert kept(conn) == {running, request}


def test_one_shots_that_completed_long_ago_are_deleted_with_their_runs(conn: psycopg.Connection) -> None:
    for name in ("old", "new"):
        create(conn, name)
        request = uuid4()
        finish(conn, request, acquire(conn, request, name).fence, function_name=name)
    for table, column in (("refresh_schedule", "completed_at"), ("refresh_runs", "started_at")):
        conn.execute(f"update public.{table} set {column} = {column} - interval '2 days' where function_name = 'old'")
    assert prune(conn) == 2
    assert one(conn, "select array_agg(function_name) from public.refresh_schedule") == ["new"]
    assert one(conn, "select array_agg(function_name) from public.refresh_runs") == ["new"]


def test_one_call_deletes_a_bounded_number_and_an_hour_is_always_kept(conn: psycopg.Connection) -> None:
    conn.execute(
        INSERT
        + """
        select 'gone', gen_random_uuid(), 'x', i, '', clock_timestamp() - i * interval '1 minute', now(), 'success'
        from generate_series(1, 3000) i
        """
    )
    assert prune(conn, limit=100) <= 200
    while prune(conn, retention=timedelta(0)):
        pass
    assert 55 <= runs(conn) <= 60


def test_runs_that_must_stay_do_not_shield_those_behind_them(conn: psycopg.Connection) -> None:
    names = "select 'kept ' || i, 'x' from generate_series(1, 500) i"
    conn.execute(f"insert into public.refresh_schedule (function_name, action) {names}")
    conn.execute(
        INSERT
        + """
        select case when i <= 500 then 'kept ' || i else 'gone' end, gen_random_uuid(), 'x', i, '',
          now() - interval '100 days' + i * interval '1 hour', now(), 'success'
        from generate_series(1, 1000) i
        """
    )
    # Each call starts at a random place too, so how many it takes is a matter of luck; that it gets there is not.
    for _ in range(5000):
        prune(conn, limit=50)
        if runs(conn) <= 500:
            break
    assert runs(conn) == 500
    assert prune(conn, limit=1000) == 0


def test_nobody_waits_for_another_who_deletes(conn: psycopg.Connection, dsn: str) -> None:
    schedule(conn, "a")
    ran(conn, "a", 3)
    ran(conn, "a", 2)
    with psycopg.connect(dsn, autocommit=True) as other, transaction(other):
        assert prune(other) == 1
        conn.execute("set statement_timeout = '1s'")
        assert prune(conn) == 0
    with holding(dsn, "select from public.refresh_schedule for update"):
        assert prune(conn) == 1, "the other one has rolled back"


def test_every_hundredth_end_of_a_run_deletes_the_history_of_other_names(conn: psycopg.Connection) -> None:
    schedule(conn, "other")
    ran(conn, "other", 20)
    newest = ran(conn, "other", 19)
    schedule(conn, "a", "run_count = 98")
    for left in (2, 1):
        request = uuid4()
        make_due(conn, "a")
        fence = acquire(conn, request, "a").fence
        finish(conn, request, fence, function_name="a", retention=DAY)
        of_other = "select count(*) from public.refresh_runs where function_name = 'other'"
        assert one(conn, of_other) == left
    assert newest in kept(conn)
