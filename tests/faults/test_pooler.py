"""P14: behind PgBouncer in transaction mode with two server connections everything is as it is without."""

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import httpx2
import psycopg
import pytest

from cronlease.db.connection import Database
from tests.acceptance.conftest import Serve
from tests.faults.pgbouncer import SERVER_CONNECTIONS, need_pgbouncer, pooling
from tests.faults.profile import Profile
from tests.integration.conftest import Room
from tests.proxy import Proxy, proxied

CLIENTS = 20
ROOT = Path(__file__).parents[2]

# These say something of the server that is not true of a pooler, or hold more transactions open than it has servers.
NOT_FOR_POOLERS = {
    "logs in as another role, and the pooler is one": [
        "tests/integration/test_failure.py::test_a_database_that_cannot_be_had_is_a_skip_and_the_job_is_not_touched",
        "tests/integration/test_failure.py::test_a_role_without_rights_gets_a_sentence",
        "tests/schema/test_migrate.py::test_a_role_without_rights_is_told_so_in_one_sentence_and_changes_nothing",
        "tests/schema/test_roles.py",
        "tests/integration/test_least_privilege.py",
        "tests/schema/test_frozen.py::test_a_role_ends_its_own_backends_and_says_who_must_end_those_of_others",
        "tests/schema/test_frozen.py::test_unlocking_says_who_must_end_what_it_may_not",
        "tests/schema/test_tables.py::test_a_role_that_may_make_no_temporary_tables_can_still_migrate_what_is_ours",
    ],
    "sets something for its session": [
        "tests/schema/test_operator.py::test_none_of_them_waits_longer_than_two_seconds",
        "tests/schema/test_race.py",
        "tests/schema/test_claim_due_together.py::test_each_due_row_is_claimed_by_exactly_one_of_sixteen_dispatchers",
        "tests/schema/test_opening_changes.py::test_the_first_run_after_an_upgrade_from_version_0_1_changes_nothing",
        "tests/schema/test_restore.py::test_a_dump_of_the_data_comes_back_with_its_times",
    ],
    "looks for a backend by its number, and the pooler gives out its own": [
        "tests/schema/test_acquire.py"
        "::test_a_request_that_asks_again_while_its_first_claim_is_on_its_way_gets_the_same_run",
        "tests/schema/test_acquire.py::test_a_request_that_asks_again_waits_for_a_lock_that_is_about_to_be_free",
        "tests/schema/test_batches.py"
        "::test_requests_that_ask_again_while_their_first_claim_is_on_its_way_get_its_rows",
        "tests/schema/test_batches.py::test_requests_that_ask_again_among_others_have_one_row_each",
        "tests/schema/test_batches.py::test_requests_that_ask_again_wait_for_a_lock_that_is_about_to_be_free",
    ],
    "holds more connections at once than the pooler has": [
        "tests/schema/test_alerts.py::test_many_that_look_at_the_same_time_alert_and_deliver_once",
        "tests/schema/test_batches.py::test_a_row_that_somebody_has_is_passed_by_a_batch_without_waiting",
        "tests/schema/test_frozen.py::test_only_the_backend_that_has_the_row_is_ended",
        "tests/schema/test_upgrade_under_way.py",
        "tests/integration/test_guard.py::test_jobs_never_get_the_connections_that_hits_and_ends_need",
        "tests/integration/test_guard.py::test_a_job_that_holds_a_connection_waits_for_another_only_so_long",
    ],
    "waits in one transaction for two others": [
        "tests/schema/test_finish.py::test_the_next_run_counts_from_the_moment_the_row_could_be_had",
        "tests/schema/test_opening_signals.py::test_another_writer_who_got_there_first_is_waited_for_and_counted_right",
        "tests/schema/test_schedule_action.py::test_creating_a_row_beside_an_open_transaction_waits_for_its_end",
        "tests/integration/test_action_lock.py::test_while_a_transaction_has_the_lock_nobody_claims_and_then_one_can",
        "tests/integration/test_job_sources.py::test_forgetting_a_source_waits_for_the_run_that_writes_of_it",
    ],
    "shows that nothing else keeps eight writers apart, and two connections do": [
        "tests/integration/test_lost_update.py::test_without_the_lease_the_same_work_loses_some",
    ],
    "ends its loop while a question to a silent server is still being given up": [
        "tests/integration/test_failure.py::test_a_database_that_falls_silent_between_hits_is_a_skip_within_the_time_limit",
    ],
    "starts servers of its own": ["tests/integration/test_embedded_postgres.py"],
}
A_FEW = ["tests/integration/test_run.py"]


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_the_suite_passes_through_a_pooler(profile: Profile) -> None:
    need_pgbouncer()
    chosen = ["tests/schema", "tests/integration"] if profile.name == "long" else A_FEW
    left_out = [word for names in NOT_FOR_POOLERS.values() for name in names for word in ("--deselect", name)]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "tests.faults.through_pooler"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", *left_out, *chosen],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|errors?)", done.stdout)}
    assert done.returncode == 0, done.stdout[-5000:]
    assert "passed" in counts, done.stdout[-5000:]
    profile.record("P14 suite", counts["passed"], sum(counts.values()), chosen=chosen)


@pytest.fixture
def pooled(dsn: str) -> Iterator[str]:
    """The test's database through a pooler."""
    Room(dsn).query("create table effect (request_id uuid); select ensure_schedule('tick')")
    with pooling(dsn) as pooled:
        yield pooled


def left_behind(dsn: str, pooled: str) -> list[str]:
    """What is still held or set in the pooler's own sessions, as the next client would find it."""
    found = ["an advisory lock" for _ in Room(dsn).query("select 1 from pg_locks where locktype = 'advisory'")]
    with ExitStack() as stack:
        # All at once, each in a transaction: so each has a session of its own.
        for _ in range(SERVER_CONNECTIONS):
            conn = stack.enter_context(psycopg.connect(pooled, prepare_threshold=None))
            found += [
                f"{name} = {setting}"
                for name, setting in conn.execute(
                    "select name, setting from pg_settings where source = 'session' and name like '%timeout'"
                )
            ]
    return found


@pytest.mark.timeout(1800)
def test_twenty_clients_share_two_connections_and_leave_nothing_behind(
    serve: Serve, dsn: str, pooled: str, profile: Profile
) -> None:
    room, rounds = Room(dsn), profile.n("P14")
    servers = [serve(pooled) for _ in range(2)]

    async def volley() -> Counter[str]:
        limits = httpx2.Limits(max_connections=CLIENTS)
        async with httpx2.AsyncClient(timeout=30, limits=limits) as client:
            hits = [client.post(servers[number % 2].url) for number in range(CLIENTS)]
            answers = [answer.json() for answer in await asyncio.gather(*hits)]
        return Counter(answer["reason"] or answer["status"] for answer in answers)

    kept, told = 0, Counter[str]()
    for _ in range(rounds):
        room.query("update refresh_schedule set next_run_at = null")
        answers = asyncio.run(volley())
        kept += answers["success"] == 1 and set(answers) <= {"success", "locked", "not_due"}
        told += answers
    assert room.query("select count(*) from effect") == [(rounds,)]
    ((sessions,),) = room.query(
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"
    )
    assert sessions <= SERVER_CONNECTIONS
    assert left_behind(dsn, pooled) == []
    profile.record("P14 clients", kept, rounds, answers=dict(told))


def test_a_connection_that_is_being_opened_while_another_finds_the_pooler_learns_of_it(pooled: str) -> None:
    async def threshold(proxy: Proxy) -> int | None:
        database = Database(proxy.dsn)
        held = proxy.hold(b"application_name")
        async with AsyncExitStack() as stack:
            slow = asyncio.create_task(stack.enter_async_context(database.connection()))
            await asyncio.to_thread(held.reached.wait, 10)
            await stack.enter_async_context(database.connection())
            held.release()
            found = (await slow).prepare_threshold
        await database.close()
        return found

    with proxied(pooled) as proxy:
        assert asyncio.run(threshold(proxy)) is None


def test_what_a_client_leaves_behind_is_seen(dsn: str, pooled: str) -> None:
    """The negative control: what must not be done behind a pooler."""
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as conn:
        conn.execute("set lock_timeout = '7s'")
        conn.execute("select pg_advisory_lock(1, 1)")
    assert set(left_behind(dsn, pooled)) == {"an advisory lock", "lock_timeout = 7000"}
