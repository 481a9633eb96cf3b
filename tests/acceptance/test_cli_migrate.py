"""What migrate says before it does anything: the SQL that it would apply, and what is behind."""

import json
from pathlib import Path

import pytest

from cronlease.cli.roles import Roles
from tests.acceptance.shell import Shell
from tests.integration.conftest import Room
from tests.schema.older_tables import PLAIN, REFUSED

UP_TO_DATE = "The schema is up to date.\n"
OF_THE_SAME_SHAPE = "create or replace view live_runs as select request_id from refresh_runs"
BREAKINGS = {
    "create or replace function is_band(p_text text) returns boolean language sql immutable as 'select true'": (
        "is_band differs from its file"
    ),
    "alter function is_band(text) volatile": "is_band differs from its file",
    "alter function finish_refresh_run set lock_timeout = '9s'": "finish_refresh_run differs from its file",
    "drop function unlock_refresh": "unlock_refresh is missing",
    OF_THE_SAME_SHAPE: "live_runs differs from its file",
    "drop view live_runs; create view live_runs as select 1 as one": "live_runs differs from its file",
    "create function release_refresh_lock(text) returns boolean language sql as 'select true'": (
        "release_refresh_lock has an older signature beside it"
    ),
    "drop function resume_refresh; create function resume_refresh(p_function_name text) returns integer language sql"
    " as 'select 1'; grant execute on function resume_refresh to pg_monitor": "resume_refresh differs from its file",
}


def test_what_a_dry_run_prints_is_what_migrate_would_do(empty_dsn: str, tmp_path: Path) -> None:
    cronlease, room = Shell(empty_dsn, tmp_path), Room(empty_dsn)
    assert cronlease.quickly("migrate", "--check")[0] == 1
    script = cronlease.says_quickly("migrate", "--dry-run")
    assert room.query("select from pg_class where relnamespace = 'public'::regnamespace") == []
    assert room.query("select from pg_proc where pronamespace = 'public'::regnamespace") == []
    room.query(script)
    may = "has_function_privilege('public', oid, 'execute')"
    assert room.query(f"select proname from pg_proc where pronamespace = 'public'::regnamespace and {may}") == []
    assert cronlease.says_quickly("migrate", "--check") == UP_TO_DATE
    assert json.loads(cronlease.says_quickly("migrate", "--json")) == {"applied": []}
    assert cronlease.quickly("migrate", "--dry-run") == (0, "", UP_TO_DATE)


@pytest.mark.thorough
def test_check_says_what_is_behind_and_the_dry_run_says_what_repairs_it(dsn: str, tmp_path: Path) -> None:
    cronlease, room = Shell(dsn, tmp_path), Room(dsn)
    for breaking, said in BREAKINGS.items():
        room.query(breaking)
        status, out, _ = cronlease.quickly("migrate", "--check")
        assert (status, out) == (1, f"{said}\nFix: run `cronlease migrate` as the owner of the schema.\n")
        room.query(cronlease.says_quickly("migrate", "--dry-run"))
    assert cronlease.says_quickly("migrate", "--check") == UP_TO_DATE
    may = "select has_function_privilege('pg_monitor', 'resume_refresh'::regproc, 'execute')"
    assert room.query(may) == [(True,)]


def test_check_names_a_missing_migration_and_refuses_one_that_was_changed(dsn: str, tmp_path: Path) -> None:
    cronlease, room = Shell(dsn, tmp_path), Room(dsn)
    room.query("delete from cronlease_migrations where name = '0006_due_by_action'")
    status, out, _ = cronlease.quickly("migrate", "--check", "--json")
    found = {"up_to_date": False, "migrations": ["0006_due_by_action"], "newer": [], "tables": [], "functions": {}}
    assert (status, json.loads(out)) == (1, found)
    room.query("update cronlease_migrations set hash = 'x' where name = '0003_opening_signals'")
    for how in ("--check", "--dry-run"):
        status, out, err = cronlease.quickly("migrate", how)
        assert (status, out) == (1, "")
        assert err.startswith("Error: migration 0003_opening_signals was changed after it was applied: ")


def test_check_knows_a_database_of_a_newer_version(dsn: str, tmp_path: Path) -> None:
    cronlease, room = Shell(dsn, tmp_path), Room(dsn)
    room.query("insert into cronlease_migrations (name, hash) values ('0999_later', 'x')")
    assert cronlease.quickly("migrate", "--check")[:2] == (
        1,
        "migration 0999_later is of a newer version\n"
        "Fix: install the version that made the database: migrating with this one would be a step back.\n",
    )


@pytest.mark.thorough
def test_the_roles_are_checked_printed_and_made_when_asked_for(dsn: str, tmp_path: Path) -> None:
    cronlease, room = Shell(dsn, tmp_path), Room(dsn)
    status, out, _ = cronlease.quickly("migrate", "--check", "--roles")
    assert status == 1
    runner, reader, fix = out.splitlines()
    # All databases of a server share its roles: another test may have made them.
    assert runner == "role cronlease_runner is missing" or "delete on opening_pages" in runner
    assert reader == "role cronlease_reader is missing" or "select on refresh_status" in reader
    assert fix.startswith("Fix: run `cronlease migrate --roles` as the owner")
    assert cronlease.says_quickly("migrate", "--check") == UP_TO_DATE

    script = cronlease.says_quickly("migrate", "--dry-run", "--roles")
    assert "grant execute on function" in script
    room.query(script)
    assert cronlease.says_quickly("migrate", "--check", "--roles") == UP_TO_DATE

    room.query("revoke select on openings from cronlease_reader")
    status, out, _ = cronlease.quickly("migrate", "--check", "--roles", "--json")
    told = json.loads(out)
    assert (status, told["up_to_date"]) == (1, False)
    assert told["roles"] == {"cronlease_runner": [], "cronlease_reader": ["select on openings"]}
    made, kept, then, last = cronlease.says_quickly("migrate", "--roles").splitlines()
    assert (made, kept) == ("kept up role cronlease_runner", "kept up role cronlease_reader")
    assert "`grant cronlease_runner to LOGIN`" in then
    assert f"{last}\n" == UP_TO_DATE
    assert cronlease.says_quickly("migrate", "--check", "--roles") == UP_TO_DATE


def test_a_role_that_is_not_there_is_said_to_be_missing() -> None:
    roles = Roles({"cronlease_runner": None, "cronlease_reader": ["a", "b"], "other": []})
    assert roles.sentences == ["role cronlease_runner is missing", "role cronlease_reader lacks a, b"]


@pytest.mark.thorough
def test_a_dry_run_of_what_migrate_refuses_prints_the_sentence_and_no_script(empty_dsn: str, tmp_path: Path) -> None:
    cronlease, room = Shell(empty_dsn, tmp_path), Room(empty_dsn)
    room.query("create view public.openings as select 1 as a")
    status, out, err = cronlease.quickly("migrate", "--dry-run")
    assert (status, out) == (1, "")
    assert "`alter view public.openings rename to openings_before`" in err
    status, out, _ = cronlease.quickly("migrate", "--check")
    *_, refused, fix = out.splitlines()
    assert (status, refused.partition(":")[0]) == (1, "migrate refuses")
    assert "run `cronlease migrate`" not in fix

    # What only a trial shows is refused as well.
    room.query("drop view public.openings")
    changes, said = REFUSED["a trigger that undoes"]
    room.query(PLAIN + changes)
    for how in ("--dry-run", "--check"):
        status, out, err = cronlease.quickly("migrate", how)
        assert (status, out, said in err) == (1, "", True)


@pytest.mark.thorough
def test_the_script_for_an_older_database_is_what_migrate_would_do(empty_dsn: str, tmp_path: Path) -> None:
    cronlease, room = Shell(empty_dsn, tmp_path), Room(empty_dsn)
    room.query(PLAIN)
    room.query(cronlease.says_quickly("migrate", "--dry-run"))
    assert cronlease.says_quickly("migrate", "--check") == UP_TO_DATE
    assert room.query("select tgname::text from pg_trigger where tgname = 'set_first_seen_at' and tgenabled = 'O'")
