"""acquire_refresh_lock where it does not grant: the reasons, their order, and that a skip leaves no trace."""

from uuid import uuid4

import psycopg
import pytest

from tests.schema.calls import acquire, change, one, physical_row, row, runs, schedule, transaction

AHEAD = "clock_timestamp() + interval '1 hour'"
SKIPPED = {
    "completed": "once = true, completed_at = clock_timestamp()",
    "paused": "paused_at = clock_timestamp()",
    "locked": f"locked_by = 'somebody', locked_until = {AHEAD}",
    "not_due": f"next_run_at = {AHEAD}",
    "schedule_read_error": "every = 'banana'",
}
"""A row that is skipped for that reason only. The order is the order of the answers."""

UNREADABLE = (
    "banana",
    "15m..10m",
    "1h..59m",
    "",
    " 10m",
    "10m\n",
    "10",
    "m",
    "10m..",
    "..10m",
    "10m...15m",
    "10m..15m..20m",
    "10m-15m",
    "-5m",
    "1e3s",
    ".5h",
    "10w",
    "10M",
    "10 minutes",
    "infinity",
    "9999999999d",
    "99999999999999999999s",
    "1m..99999999999999999999s",
)
READABLE = ("10m..15m", "90s", "1.5h", "1d", "10m..10m", "59m..1h", "0.5s..1s")


@pytest.fixture
def skipped(conn: psycopg.Connection) -> psycopg.Connection:
    """One row for each reason, named after it."""
    for reason, changes in SKIPPED.items():
        schedule(conn, reason, changes)
    return conn


def test_each_reason_is_answered(skipped: psycopg.Connection) -> None:
    for reason in SKIPPED:
        answer = acquire(skipped, uuid4(), reason)
        assert (answer.acquired, answer.reason, answer.fence) == (False, reason, None)
    assert runs(skipped) == 0


def test_the_reasons_are_answered_in_their_order(conn: psycopg.Connection) -> None:
    schedule(conn, changes=", ".join(SKIPPED.values()))
    undo = {
        "completed": "completed_at = null",
        "paused": "paused_at = null",
        "locked": "locked_by = null, locked_until = null",
        "not_due": "next_run_at = null",
        "schedule_read_error": "every = null",
    }
    for reason in SKIPPED:
        assert acquire(conn, uuid4()).reason == reason
        change(conn, undo[reason])
    assert acquire(conn, uuid4()).acquired


def test_force_skips_the_due_check_and_nothing_else(skipped: psycopg.Connection) -> None:
    answers = {reason: acquire(skipped, uuid4(), reason, force=True) for reason in SKIPPED}

    assert answers.pop("not_due").acquired
    assert {name: answer.reason for name, answer in answers.items()} == {name: name for name in answers}


def test_a_locked_skip_says_who_and_until_when(conn: psycopg.Connection) -> None:
    schedule(conn)
    holder = uuid4()
    claim = acquire(conn, holder)

    answer = acquire(conn, uuid4())

    assert (answer.reason, answer.locked_by, answer.locked_until) == ("locked", str(holder), claim.locked_until)


def test_a_skip_that_is_not_due_says_when_it_will_be(conn: psycopg.Connection) -> None:
    schedule(conn, changes=SKIPPED["not_due"])

    answer = acquire(conn, uuid4())

    assert answer.next_run_at == one(conn, "select next_run_at from public.refresh_schedule")


def test_a_row_that_never_runs_is_not_due_and_says_no_time(conn: psycopg.Connection) -> None:
    schedule(conn, changes="next_run_at = 'infinity'")

    answer = acquire(conn, uuid4())

    assert (answer.reason, answer.next_run_at) == ("not_due", None)


def test_a_lease_without_end_is_locked_and_says_no_time(conn: psycopg.Connection) -> None:
    schedule(conn, changes="locked_by = 'somebody', locked_until = 'infinity'")

    answer = acquire(conn, uuid4())

    assert (answer.reason, answer.locked_by, answer.locked_until) == ("locked", "somebody", None)


def test_a_cadence_that_cannot_be_read_is_never_run(conn: psycopg.Connection) -> None:
    schedule(conn)
    wrong = {}
    for every in UNREADABLE:
        conn.execute("update public.refresh_schedule set every = %s", [every])
        try:
            reason = acquire(conn, uuid4(), force=True).reason
        except psycopg.Error as error:
            reason = repr(error)
        if reason != "schedule_read_error":
            wrong[every] = reason
    assert wrong == {}
    assert runs(conn) == 0
    assert (row(conn)["fence"], row(conn)["locked_by"]) == (0, None)


def test_a_cadence_that_can_be_read_is_claimed(conn: psycopg.Connection) -> None:
    for every in READABLE:
        schedule(conn, every, f"every = '{every}'")
        assert acquire(conn, uuid4(), every).every == every


def skip_without_a_trace(conn: psycopg.Connection, reason: str) -> None:
    """No row version, no transaction ID, no row lock, no advisory lock; a read-only transaction will do."""
    before = row(conn, reason), physical_row(conn, reason)
    with transaction(conn):
        written = _written(conn)
        assert acquire(conn, uuid4(), reason).reason == reason
        assert one(conn, "select pg_current_xact_id_if_assigned()") is None
        assert _written(conn) == written
        assert _locks(conn) == []
    with transaction(conn, "read only"):
        assert acquire(conn, uuid4(), reason).reason == reason
    assert (row(conn, reason), physical_row(conn, reason)) == before
    assert runs(conn) == 0


def test_a_skip_writes_nothing_and_takes_no_lock(skipped: psycopg.Connection) -> None:
    for reason in ("completed", "paused", "locked", "not_due"):
        skip_without_a_trace(skipped, reason)


def test_a_cadence_that_is_unreadable_is_skipped_without_a_trace_too(skipped: psycopg.Connection) -> None:
    skip_without_a_trace(skipped, "schedule_read_error")


def test_a_claim_does_write_and_lock(conn: psycopg.Connection) -> None:
    """The control of the tests above: the same looking does see a claim."""
    schedule(conn)
    before = physical_row(conn)

    with transaction(conn):
        written = _written(conn)
        assert acquire(conn, uuid4()).acquired
        assert one(conn, "select pg_current_xact_id_if_assigned()") is not None
        assert _written(conn) == written + 2, "the row and its run"
        assert "advisory" in _locks(conn)
        assert "transactionid" in _locks(conn)
        assert physical_row(conn) != before


def test_an_answered_claim_leaves_no_lock_behind(conn: psycopg.Connection) -> None:
    schedule(conn)
    assert acquire(conn, uuid4()).acquired
    assert acquire(conn, uuid4()).reason == "locked"

    assert _locks(conn) == []


def _written(conn: psycopg.Connection) -> int:
    """Rows that this session inserted, updated or deleted in our tables since it last told the server."""
    text = "select sum(n_tup_ins + n_tup_upd + n_tup_del)::int from pg_stat_xact_user_tables"
    return int(one(conn, text))


def _locks(conn: psycopg.Connection) -> list[str]:
    """What this transaction holds beside its own number and the right to read."""
    found = conn.execute(
        """
        select locktype
        from pg_locks
        where pid = pg_backend_pid()
          and locktype <> 'virtualxid'
          and not (locktype = 'relation' and mode = 'AccessShareLock')
        order by locktype
        """
    ).fetchall()
    return [kind for (kind,) in found]


def test_a_band_is_written_in_plain_digits_whatever_the_locale(conn: psycopg.Connection) -> None:
    if conn.execute("select from pg_collation where collname = 'und-x-icu'").fetchone() is None:
        pytest.skip("this server was built without ICU")
    row = conn.execute("select public.is_band('٣m' collate \"und-x-icu\"), public.is_band('3m')").fetchone()
    assert row == (False, True)
