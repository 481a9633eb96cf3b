"""A deployment in a schema of its own, beside another one in public: real processes, one database."""

import json
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.conftest import FUNCTIONS, Serve, clean_environment, free_port
from tests.acceptance.shell import Shell
from tests.integration.conftest import Room

MAIN = FUNCTIONS / "main.py"
OURS = "deployment_b"


@pytest.mark.thorough
def test_two_deployments_in_one_database_do_not_know_of_each_other(
    empty_dsn: str, tmp_path: Path, serve: Serve
) -> None:
    room = Room(empty_dsn)
    room.query("create table effect (request_id uuid)")
    elsewhere = serve(empty_dsn, CRONLEASE_SCHEMA=OURS)
    assert elsewhere.hit().json()["status"] == "success"
    assert room.query("select to_regclass('public.refresh_schedule')") == [(None,)], "nothing of ours is in public"

    shared = serve(empty_dsn)
    assert shared.hit().json()["status"] == "success", "due, whatever the other has run"
    for served in (elsewhere, shared):
        assert served.hit().json()["reason"] == "not_due"
        assert [row["function_name"] for row in served.hit("/status", method="GET").json()["schedules"]] == ["tick"]
    assert room.query(
        "select (select run_count from deployment_b.refresh_schedule), run_count from refresh_schedule"
    ) == [(1, 1)]


@pytest.mark.thorough
def test_every_verb_is_about_the_schema_that_is_configured(empty_dsn: str, tmp_path: Path) -> None:
    cronlease, room = Shell(empty_dsn, tmp_path), Room(empty_dsn)
    cronlease.environment |= {"CRONLEASE_SCHEMA": OURS}
    status, out, _ = cronlease.quickly("migrate", "--check")
    assert status == 1, out
    room.query(cronlease.says_quickly("migrate", "--dry-run"))
    assert cronlease.says_quickly("migrate", "--check") == "The schema is up to date.\n"
    assert cronlease.says_quickly("migrate") == "The schema is up to date.\n"
    try:
        out = cronlease.says_quickly("migrate", "--roles")
        assert "made role cronlease_runner_deployment_b" in out
        assert "grant cronlease_reader_deployment_b to LOGIN" in out
        assert cronlease.says_quickly("migrate", "--roles", "--check") == "The schema is up to date.\n"

        created = ["schedule", "create", "nightly", "--action", "echo", "--every", "10m..15m"]
        assert '"nightly" is scheduled' in cronlease(*created)[1]
        assert "nightly" in cronlease.says_quickly("status")
        assert "nightly" in cronlease.says_quickly("explain", "nightly")
        assert cronlease.says_quickly("runs", "--json").startswith("[")
        assert "nightly" in cronlease.says_quickly("schedule", "list")
        cronlease.says_quickly("schedule", "pause", "nightly")
        cronlease.says_quickly("schedule", "resume", "nightly")
        cronlease.says_quickly("recover", "--all")
        ran = json.loads(cronlease("run-due", "--json")[1])
        assert "nightly" in [run["function"] for run in [*ran["ran"], *ran["failed"]]]
        cronlease.says_quickly("signals")
        _, out, _ = cronlease.quickly("doctor", "--json")
        broken = [each for each in json.loads(out)["findings"] if each["level"] == "broken"]
        assert broken == [], broken
        assert room.query("select relname from pg_class where relnamespace = 'public'::regnamespace") == []
    finally:
        for role in ("cronlease_runner_deployment_b", "cronlease_reader_deployment_b"):
            room.query(f"drop owned by {role}; drop role {role}")


@pytest.mark.thorough
def test_the_shipped_job_is_emulated_in_that_schema(empty_dsn: str, tmp_path: Path) -> None:
    cronlease, room = Shell(empty_dsn, tmp_path), Room(empty_dsn)
    cronlease.environment = clean_environment(
        DATABASE_URL=empty_dsn, CRONLEASE_DATA_DIR=str(tmp_path), CRONLEASE_SCHEMA=OURS, FUNCTION_SOURCE=str(MAIN)
    )
    status, out, err = cronlease("emulate", "--once", "--port", str(free_port()))
    assert status == 0, err
    assert json.loads(out)["status"] == "success"
    assert room.query("select count(*) > 0 from deployment_b.openings") == [(True,)]
    assert room.query("select count(*) from deployment_b.opening_pages where openings > 0")[0][0] > 0
    assert room.query("select relname from pg_class where relnamespace = 'public'::regnamespace") == []


@pytest.mark.thorough
def test_what_only_the_owner_of_the_schema_may_grant_is_said(empty_dsn: str, tmp_path: Path) -> None:
    """A schema that was made for us beforehand: PostgreSQL only warns that nothing was granted on it."""
    migrator, place = f"cronlease_test_{uuid4().hex[:12]}", f"tenant_{uuid4().hex[:12]}"
    made = [migrator, f"cronlease_runner_{place}", f"cronlease_reader_{place}"]
    cronlease = Shell(make_conninfo(empty_dsn, user=migrator, password="secret"), tmp_path)
    cronlease.environment["CRONLEASE_SCHEMA"] = place
    statement = f"grant usage on schema {place} to {made[1]}, {made[2]}"
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        admin.execute(f"create role {migrator} login createrole password 'secret'; create schema {place}")
        admin.execute(f"grant usage, create on schema {place} to {migrator}")
        admin.execute(f"grant temporary on database {admin.info.dbname} to {migrator}")
        try:
            for words in (["--roles"], ["--check", "--roles"]):
                status, out, err = cronlease.quickly("migrate", *words)
                assert (status, "up to date.\n" in out) == (1, False)
                assert f"let the owner of the schema run `{statement}`" in out + err
            admin.execute(statement)
            for words in (["--roles"], ["--check", "--roles"]):
                assert cronlease.says_quickly("migrate", *words).endswith("The schema is up to date.\n")
        finally:
            for role in made:
                with suppress(psycopg.errors.UndefinedObject):
                    admin.execute(f"drop owned by {role} cascade; drop role {role}")


def test_a_mistyped_schema_is_not_made_by_the_way(empty_dsn: str, tmp_path: Path) -> None:
    cronlease = Shell(empty_dsn, tmp_path)
    cronlease.environment["CRONLEASE_SCHEMA"] = "nosuch"
    status, _, err = cronlease.quickly("schedule", "create", "nightly", "--action", "echo", "--every", "10m..15m")
    assert status == 1
    assert err.splitlines()[-1].startswith("Error: the database has no schema nosuch: correct CRONLEASE_SCHEMA, or ")
    assert "no schema of ours named nosuch (CRONLEASE_SCHEMA)" in cronlease.quickly("status")[2]
    assert Room(empty_dsn).query("select to_regnamespace('nosuch')") == [(None,)]


def test_whoever_may_not_create_the_schema_is_told_what_to_ask_for(empty_dsn: str, tmp_path: Path) -> None:
    role, room = f"cronlease_test_{uuid4().hex[:12]}", Room(empty_dsn)
    room.query(f"create role {role} login password 'secret'")
    try:
        cronlease = Shell(make_conninfo(empty_dsn, user=role, password="secret"), tmp_path)
        cronlease.environment["CRONLEASE_SCHEMA"] = "tenant_x"
        status, _, err = cronlease.quickly("migrate")
        assert status == 1
        assert (
            f'let its owner run `create schema tenant_x authorization "{role}"`, or `grant create on database' in err
        )
    finally:
        room.query(f"drop role {role}")
