"""refresh_status and read_refresh_status: what a schedule is doing now, derived from its columns."""

from typing import Any
from uuid import uuid4

import psycopg

from tests.schema.calls import acquire, call, change, expire, finish, one, schedule

AHEAD = "clock_timestamp() + interval '1 hour'"
BEHIND = "clock_timestamp() - interval '1 second'"
HELD = f"locked_by = 'somebody', locked_until = {AHEAD}"
EXPIRED = f"locked_by = 'somebody', locked_until = {BEHIND}"
PAUSED = "paused_at = clock_timestamp(), paused_reason = 'by hand'"
COMPLETED = "once = true, completed_at = clock_timestamp()"

SHOWN = {
    "never ran": ("", "pending", True),
    "its time has come": (f"next_run_at = {BEHIND}", "pending", True),
    "waits": (f"next_run_at = {AHEAD}", "pending", False),
    "waits for ever": ("next_run_at = 'infinity'", "pending", False),
    "runs": (HELD, "dispatching", False),
    "runs, forced": (f"{HELD}, next_run_at = {AHEAD}", "dispatching", False),
    "its holder is gone": (EXPIRED, "stale", True),
    "its holder is gone and it backs off": (f"{EXPIRED}, next_run_at = {AHEAD}", "stale", False),
    "paused": (PAUSED, "paused", False),
    "paused while it runs": (f"{PAUSED}, {HELD}", "dispatching", False),
    "paused after its holder was gone": (f"{PAUSED}, {EXPIRED}", "paused", False),
    "a one-shot to come": ("once = true", "pending", True),
    "completed": (COMPLETED, "completed", False),
    "completed and paused": (f"{COMPLETED}, {PAUSED}", "completed", False),
}
"""What is so about the row -> the state, and whether a claim would be granted now."""


def shown(conn: psycopg.Connection, function_name: str) -> tuple[Any, Any]:
    found = conn.execute("select state, due from public.refresh_status where function_name = %s", [function_name])
    state, due = found.fetchone() or (None, None)
    return state, due


def test_each_state_is_shown(conn: psycopg.Connection) -> None:
    for name, (changes, _, _) in SHOWN.items():
        schedule(conn, name, changes)

    assert {name: shown(conn, name) for name in SHOWN} == {
        name: (state, due) for name, (_, state, due) in SHOWN.items()
    }


def test_what_is_shown_as_due_is_what_a_claim_is_granted(conn: psycopg.Connection) -> None:
    for name, (changes, _, _) in SHOWN.items():
        schedule(conn, name, changes)
        _, due = shown(conn, name)

        assert one(conn, "select acquired from public.acquire_refresh_lock(%s, %s)", [name, uuid4()]) == due, name


def test_a_run_is_shown_from_its_claim_to_its_end(conn: psycopg.Connection) -> None:
    schedule(conn)
    assert shown(conn, "job") == ("pending", True)
    acquire(conn, uuid4())
    assert shown(conn, "job") == ("dispatching", False)
    expire(conn)
    assert shown(conn, "job") == ("stale", True)
    request = uuid4()
    finish(conn, request, acquire(conn, request).fence)
    assert shown(conn, "job") == ("pending", True)


def test_what_is_shown_in_an_old_transaction_is_what_is_so_now(dsn: str, conn: psycopg.Connection) -> None:
    schedule(conn)
    with psycopg.connect(dsn) as old:
        one(old, "select now()")
        change(conn, "locked_by = 'somebody', locked_until = clock_timestamp(), next_run_at = clock_timestamp()")

        assert shown(old, "job") == ("stale", True)


def test_the_status_is_one_document(conn: psycopg.Connection) -> None:
    assert call(conn, "read_refresh_status")[0] == {"schedules": [], "runs": []}
    for name in ("b", "a"):
        schedule(conn, name)
        request = uuid4()
        finish(conn, request, acquire(conn, request, name).fence, "failed", name, error="no answer", fetched=3)
    last = uuid4()
    acquire(conn, last, "a")

    document = call(conn, "read_refresh_status")[0]

    assert [(shown["function_name"], shown["state"]) for shown in document["schedules"]] == [
        ("a", "dispatching"),
        ("b", "pending"),
    ]
    assert document["schedules"][1]["last_error"] == "no answer"
    assert [(run["function_name"], run["status"], run["fetched"]) for run in document["runs"]] == [
        ("a", "running", None),
        ("a", "failed", 3),
        ("b", "failed", 3),
    ], "the newest first"
    assert document["runs"][0]["request_id"] == str(last)


def test_the_document_holds_every_column_of_the_view_and_the_newest_runs_only(conn: psycopg.Connection) -> None:
    schedule(conn)
    for _ in range(25):
        request = uuid4()
        finish(conn, request, acquire(conn, request).fence)
    columns = one(
        conn,
        "select array_agg(column_name::text) from information_schema.columns where table_name = 'refresh_status'",
    )

    document = call(conn, "read_refresh_status", all=True)[0]

    assert set(document["schedules"][0]) == set(columns)
    assert len(document["runs"]) == 20
    assert [run["fence"] for run in call(conn, "read_refresh_status", runs=3)[0]["runs"]] == [25, 24, 23]


def test_of_many_schedules_the_document_shows_what_runs_then_what_is_due_then_what_rests(
    conn: psycopg.Connection,
) -> None:
    """However few are shown, the ones before are among them."""
    order = {
        "runs": HELD,
        "never ran": "",
        "is due": f"next_run_at = {BEHIND}",
        "waits": f"next_run_at = {AHEAD}",
        "paused": PAUSED,
        "completed last": COMPLETED,
        "completed before": f"once = true, completed_at = {BEHIND}",
    }
    for name in sorted(order):
        schedule(conn, name, order[name])

    for count in range(1, len(order) + 2):
        shown = call(conn, "read_refresh_status", schedules=count)[0]["schedules"]
        assert [row["function_name"] for row in shown] == sorted(list(order)[:count])
