"""CRONLEASE_SCHEMA: everything of ours in another schema, and two deployments in one database that do not meet."""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from cronlease.cli.drift import drift
from cronlease.cli.roles import missing_grants
from cronlease.db.functions import acquire_refresh_lock
from cronlease.db.migration.migrate import create_if_absent, migrate, state
from cronlease.db.migration.schema_files import functions_and_views, schema_files
from cronlease.db.schema import in_schema, lock_key, schema
from cronlease.readers import schema_name
from cronlease.settings import SettingsError, load
from tests.schema.calls import one

OURS = "tenant_a"
CALLERS = 25
SHARED = "select count(*) from pg_class where relnamespace = 'public'::regnamespace"


@pytest.fixture
def elsewhere(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty database, and another schema configured."""
    monkeypatch.setenv("CRONLEASE_SCHEMA", OURS)
    yield empty_dsn
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        for role in ("cronlease_runner", "cronlease_reader"):
            if one(conn, f"select count(*) from pg_roles where rolname = '{role}_{OURS}'"):
                conn.execute(f"drop owned by {role}_{OURS}; drop role {role}_{OURS}")


@pytest.mark.parametrize("name", ["public", "cronlease", "_", "tenant_1", "a" * 46])
def test_names_that_a_schema_may_have(name: str) -> None:
    assert schema_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["Tenant", "1a", "a-b", "a b", 'a"', "pg_x", "select", "left", "values", "information_schema", "a" * 47, "ä"],
)
def test_a_name_that_cannot_be_used_is_refused_in_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        SettingsError, match=r"^CRONLEASE_SCHEMA: .* cannot be our schema: write at most 46"
    ) as caught:
        load({"CRONLEASE_SCHEMA": name})
    monkeypatch.setenv("CRONLEASE_SCHEMA", name)
    with pytest.raises(SettingsError) as again:
        schema()
    assert str(again.value) == str(caught.value)


def test_every_word_that_the_server_keeps_for_itself_is_refused(conn: psycopg.Connection) -> None:
    words = one(conn, "select array_agg(word) from pg_get_keywords() where catcode <> 'U'")
    assert len(words) > 100
    for word in words:
        with pytest.raises(ValueError, match="cannot be our schema"):
            schema_name(word)


def test_the_name_is_put_where_the_schema_is_meant_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "revoke create on schema public from public; grant usage on schema public to cronlease_runner, public;"
        " select 'public'::regnamespace, lower('PUBLIC'), 'public.x' from public.y, republic.z, public_z"
    )
    assert in_schema(text) == text
    monkeypatch.setenv("CRONLEASE_SCHEMA", OURS)
    changed = (
        "revoke create on schema tenant_a from public; grant usage on schema tenant_a to cronlease_runner_tenant_a,"
        " public; select 'tenant_a'::regnamespace, lower('PUBLIC'), 'tenant_a.x' from tenant_a.y, republic.z,"
        " public_z"
    )
    assert in_schema(text) == changed
    assert in_schema(changed) == changed


def test_no_file_names_the_schema_in_a_way_that_would_stay() -> None:
    """Every `public` that is left after the substitution is the role, a comment, or PUBLIC in capitals."""
    root = Path(__file__).parents[2]
    files = [path for folder in ("schema", "functions") for path in (root / folder).rglob("*.sql")]
    assert len(files) > 60
    for path in files:
        code = re.sub(r"--.*", "", path.read_text("utf-8"))
        assert not re.search(r"grantee = 0 then 'public'", code), f"{path.name}: write lower('PUBLIC')"
        for match in re.finditer(r"(\w+ )?(.?)\bpublic\b(.?)", code):
            before, after = match[1], match[3]
            assert after == "." or match[2] + after == "''" or before in ("schema ", "from ", "to "), (
                path.name,
                match[0],
            )


@pytest.mark.thorough
def test_everything_of_both_packages_is_in_that_schema_and_nothing_in_public(elsewhere: str) -> None:
    with psycopg.connect(elsewhere, autocommit=True) as conn:
        assert state(conn) == "absent"
        before = one(conn, SHARED)
        assert migrate(elsewhere, roles=True) == [file.name for file in schema_files("migrations")]
        assert one(conn, SHARED) == before
        assert one(conn, "select count(*) from pg_proc where pronamespace = 'public'::regnamespace") == 0
        made = "select array_agg(proname::text) from pg_proc where pronamespace = 'tenant_a'::regnamespace"
        assert set(one(conn, made)) >= {file.name for file in functions_and_views() if not file.is_view}
        assert one(conn, "select to_regclass('tenant_a.opening_signals') is not null")
        # The hashes are of the files as they are.
        recorded = conn.execute("select name, hash from tenant_a.cronlease_migrations").fetchall()
        assert sorted(recorded) == sorted((file.name, file.hash) for file in schema_files("migrations"))
        assert drift(conn).sentences() == []
        assert missing_grants(conn).lacking == {"cronlease_runner_tenant_a": [], "cronlease_reader_tenant_a": []}
        bodies = made.replace("array_agg(proname::text)", "string_agg(pg_get_functiondef(oid), '')")
        assert re.findall(r"\bpublic\.\w+|'public'", one(conn, bodies)) == []
        conn.execute("alter function tenant_a.is_band volatile; drop index tenant_a.refresh_runs_history")
        assert len(drift(conn).sentences()) == 2
        assert migrate(elsewhere) == []
        assert drift(conn).sentences() == []
    assert create_if_absent(elsewhere) == []


def test_the_keys_of_locks_are_those_of_version_0_1_in_public_and_others_elsewhere(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    purposes = ["claim", "create", "migrate", "write", "prune", "request"]
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert [one(conn, "select public.refresh_lock_key(%s)", [each]) for each in purposes] == [1, 2, 3, 4, 5, 6]
        assert lock_key("migrate") == 3
        keys = {1, 2, 3, 4, 5, 6}
        for name in (OURS, "tenant_b"):
            monkeypatch.setenv("CRONLEASE_SCHEMA", name)
            migrate(dsn)
            there = [one(conn, f"select {name}.refresh_lock_key(%s)", [each]) for each in purposes]
            assert there == [lock_key(each) for each in purposes]
            assert not keys & set(there)
            keys |= set(there)
        assert len(keys) == 18


def test_one_slot_is_run_once_in_each_of_two_schemas_at_the_same_time(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race for a row with the same id and name on both sides: each has its own winner, and nobody is told locked
    because of the other."""
    claims: dict[str, Any] = {}
    for name in ("public", OURS):
        monkeypatch.setenv("CRONLEASE_SCHEMA", name)
        migrate(empty_dsn, packages=("cronlease",))
        claims[name] = in_schema("select * from public.acquire_refresh_lock('job', %s, '5 minutes')")
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        for name in claims:
            conn.execute(f"select {name}.ensure_schedule('job')")
        ids = "select (select id from public.refresh_schedule), (select id from tenant_a.refresh_schedule)"
        assert conn.execute(ids).fetchone() == (1, 1)
    start = threading.Barrier(2 * CALLERS)

    def hit(name: str) -> tuple[str, bool, str | None]:
        with psycopg.connect(empty_dsn, autocommit=True) as conn:
            start.wait(30)
            row = conn.execute(claims[name], [uuid4()]).fetchone()
            assert row is not None
            return name, row[0], row[1]

    with ThreadPoolExecutor(2 * CALLERS) as threads:
        answers = list(threads.map(hit, [*claims] * CALLERS))

    for name in claims:
        of_this = [(acquired, reason) for place, acquired, reason in answers if place == name]
        assert sorted(of_this, key=str) == [(False, "locked")] * (CALLERS - 1) + [(True, None)]


def test_a_claim_in_one_schema_is_not_locked_while_the_other_is_being_claimed_and_written(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("public", OURS):
        monkeypatch.setenv("CRONLEASE_SCHEMA", name)
        migrate(empty_dsn, packages=("cronlease",))
    with psycopg.connect(empty_dsn) as holder, psycopg.connect(empty_dsn, autocommit=True) as other:
        for name in ("public", OURS):
            other.execute(f"select {name}.ensure_schedule('job')")
        # Not committed: every advisory lock and row lock of public's row is held.
        request = uuid4()
        claim = holder.execute("select * from public.acquire_refresh_lock('job', %s)", [request]).fetchone()
        assert claim is not None
        holder.execute("select public.assert_lease('job', %s, %s)", [request, claim[2]])
        holder.execute("select public.prune_refresh_history(), public.ensure_schedule('more')")

        assert one(other, "select acquired from tenant_a.acquire_refresh_lock('job', gen_random_uuid())") is True
        assert one(other, "select tenant_a.ensure_schedule('more')") == "created"
        assert one(other, "select count(*) from tenant_a.refresh_holders") == 0
        assert one(other, "select public.ensure_schedule('more')") == "locked"


def test_a_call_is_about_the_schema_that_is_configured_at_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    def text() -> str:
        return acquire_refresh_lock("job", uuid4(), timedelta(minutes=5)).text

    before = text()
    monkeypatch.setenv("CRONLEASE_SCHEMA", OURS)
    assert text() == before.replace("public.", "tenant_a.")
    assert before.count("public.") == 2
