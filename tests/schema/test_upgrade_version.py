"""A database of version 0.1, with a run under way, is upgraded in place, and a revision of 0.1 goes on working."""

import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from cronlease.cli.drift import drift
from cronlease.db.migration.migrate import migrate
from cronlease.db.migration.schema_files import schema_files
from tests.schema.calls import one

DUMP = Path(__file__).with_name("version_0_1.sql").read_text("utf-8")
RUNNING = "00000000-0000-4000-8000-000000000004"
TABLES = ["refresh_schedule", "refresh_runs", "opening_signals", "opening_sources", "opening_pages"]

CLAIM = ["acquired", "reason", "fence", "locked_by", "locked_until", "next_run_at"]
CLAIM += ["action", "args", "every", "failures"]
# As version 0.1 sends them: the call, and the columns that it reads by their place.
ACQUIRE = (
    "select * from public.acquire_refresh_lock(p_function_name => %(name)s, p_request_id => %(id)s,"
    " p_lease => '5 minutes', p_backoff => '30 minutes', p_trigger => 'cloud_scheduler', p_job_name => 'j',"
    " p_schedule_time => 't', p_force => true, p_args => '{\"a\": 1}', p_actions => '{\"nightly\",\"clean\"}',"
    " p_parent_request_id => null)",
    CLAIM,
)
CLAIM_DUE = (
    "select * from public.claim_due_refresh(p_request_id => %(id)s, p_actions => '{\"clean\"}',"
    " p_leases => '{\"300 s 0 us\"}', p_backoffs => '{\"1800 s 0 us\"}', p_trigger => 'worker',"
    " p_parent_request_id => null)",
    [*CLAIM, "function_name", "due_in"],
)
OF_A_RUN = [
    (
        "select public.renew_refresh_lock(p_function_name => %(name)s, p_request_id => %(id)s, p_fence => %(fence)s,"
        " p_lease => '5 minutes')",
        "renewed",
    ),
    (
        "select public.assert_lease(p_function_name => %(name)s, p_request_id => %(id)s, p_fence => %(fence)s)::text",
        "",
    ),
    (
        "select * from public.finish_refresh_run(p_function_name => %(name)s, p_request_id => %(id)s,"
        " p_fence => %(fence)s, p_status => 'partial', p_delay => '10 minutes', p_retention => '30 days',"
        " p_error => 'left out', p_fetched => 1, p_inserted => 1, p_updated => 0, p_unchanged => 0, p_closed => 0)",
        "partial",
    ),
    ("select public.release_refresh_lock(p_function_name => %(name)s, p_request_id => %(id)s)", False),
]
OTHERS = [
    "select * from public.due_refreshes(p_actions => '{\"clean\"}')",
    "select public.ensure_schedule(p_function_name => 'another')",
    "select public.read_refresh_status()",
    "select public.read_refresh_status(p_runs => 500, p_schedules => 100)",
    "select * from public.schedule_action(p_function_name => 'mail', p_action => 'mail', p_args => '{}',"
    " p_delay => '1 minute', p_at => null, p_every => null, p_replace => false)",
    "select public.pause_refresh(p_function_name => 'failing', p_reason => 'x')",
    "select public.resume_refresh(p_function_name => 'failing')",
    "select * from public.unlock_refresh(p_function_name => 'failing', p_request_id => null)",
    "select public.recover_stale_dispatches(p_older_than => '0')",
    "select public.delete_refresh(p_function_name => 'failing')",
]
# What the command line of version 0.1 takes of a schedule; it fails on any other key or state.
SCHEDULE = {"function_name", "state", "due", "action", "next_run_at", "last_run_at", "last_status", "last_error"}
SCHEDULE |= {"run_count", "failures", "abandoned", "locked_by", "locked_until", "fence", "every", "once"}
SCHEDULE |= {"completed_at", "paused_at", "paused_reason"}
STATES = {"dispatching", "stale", "pending", "paused", "completed"}


@pytest.fixture
def upgraded(empty_dsn: str) -> tuple[str, dict[str, list[dict[str, Any]]]]:
    """The database after migrate, and its rows before."""
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(DUMP)
        before = rows(conn)
    known = {row["name"] for row in before.pop("cronlease_migrations")}
    assert migrate(empty_dsn) == [file.name for file in schema_files("migrations") if file.name not in known]
    return empty_dsn, before


def rows(conn: psycopg.Connection) -> dict[str, list[dict[str, Any]]]:
    text = "select coalesce(jsonb_agg(to_jsonb(t) order by t::text), '[]') from public.{} t"
    return {table: one(conn, text.format(table)) for table in [*TABLES, "cronlease_migrations"]}


def test_every_row_of_version_0_1_is_kept_and_nothing_differs_from_a_new_database(
    upgraded: tuple[str, dict[str, list[dict[str, Any]]]],
) -> None:
    dsn, before = upgraded
    with psycopg.connect(dsn, autocommit=True) as conn:
        after = rows(conn)
        for table, was in before.items():
            now = {json.dumps({name: row[name] for name in was[0]}) for row in after[table]} if was else set()
            assert now == {json.dumps(row) for row in was}, table
        assert drift(conn).sentences() == []


# As the migrate of version 0.1 reads and writes the ledger.
LEDGER = "select coalesce(jsonb_object_agg(name, hash), '{}') from public.cronlease_migrations"
RECORD = "insert into public.cronlease_migrations (name, hash) values (%s, %s) returning name"


def test_the_ledger_says_whose_each_migration_is_and_version_0_1_goes_on_using_it(
    upgraded: tuple[str, dict[str, list[dict[str, Any]]]],
) -> None:
    dsn, _ = upgraded
    packages = {file.name: file.package for file in schema_files("migrations")}
    assert set(packages.values()) == {"cronlease", "opening_signals"}
    text = "select jsonb_object_agg(name, package) from public.cronlease_migrations"
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert one(conn, text) == packages
        of_0_1 = re.findall(r"cronlease_migrations VALUES \('(\w+)', '(\w+)'", DUMP)
        assert len(of_0_1) == 8
        assert dict(of_0_1).items() <= one(conn, LEDGER).items(), "it finds none of its own missing or changed"
        # It applies again what somebody took out of the ledger, and knows nothing of packages.
        name, value = of_0_1[3]
        conn.execute("delete from public.cronlease_migrations where name = %s", [name])
        assert one(conn, RECORD, [name, value]) == name
        assert migrate(dsn) == []
        assert one(conn, text) == packages


def test_a_revision_of_version_0_1_goes_on_working(upgraded: tuple[str, dict[str, list[dict[str, Any]]]]) -> None:
    dsn, _ = upgraded
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as conn:
        # The run that was under way ends.
        finish, ended = OF_A_RUN[2]
        given = {"name": "running", "id": RUNNING, "fence": 1}
        assert conn.execute(finish, given).fetchone()["status"] == ended  # type: ignore[index]

        conn.execute("update public.refresh_schedule set next_run_at = null where function_name = 'nightly'")
        for text, columns in (ACQUIRE, CLAIM_DUE):
            request = uuid4()
            claim = conn.execute(text, {"name": "nightly", "id": request}).fetchone()
            assert claim is not None
            assert claim["acquired"], claim
            assert list(claim) == columns, "it reads them by their place"
            for call, answer in OF_A_RUN:
                row = conn.execute(call, {"name": "nightly", "id": request, "fence": claim["fence"]}).fetchone()
                assert row is not None
                assert next(iter(row.values())) == answer
            conn.execute("update public.refresh_schedule set next_run_at = null where function_name = 'nightly'")
        for text in OTHERS:
            assert conn.execute(text).fetchone() is not None


def test_the_status_that_version_0_1_asks_for_has_only_what_its_command_line_knows(
    upgraded: tuple[str, dict[str, list[dict[str, Any]]]],
) -> None:
    dsn, _ = upgraded
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "insert into public.refresh_schedule (function_name, action) values ('late', 'x'), ('open', 'x')"
        )
        conn.execute("update public.refresh_schedule set late_at = clock_timestamp() where function_name = 'late'")
        conn.execute("update public.refresh_schedule set breaker_until = 'infinity' where function_name = 'open'")
        told = one(conn, "select array_agg(state order by state) from public.refresh_status where action = 'x'")
        assert told == ["breaker_open", "late"]
        document = one(conn, "select public.read_refresh_status(p_runs => 500, p_schedules => 100)")
        assert len(document["schedules"]) > 4
        for row in document["schedules"]:
            assert row.keys() == SCHEDULE
            assert row["state"] in STATES
