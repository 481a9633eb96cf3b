"""P30: a run whose client stands still is replaced, wherever in its fenced transaction it stands."""

import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cronlease.db.migration.migrate import migrate
from cronlease.embedded import server
from cronlease.embedded.cluster import server_command
from tests.acceptance.conftest import Served
from tests.conftest import Server
from tests.faults.island import island
from tests.faults.processes import started
from tests.faults.profile import Profile
from tests.faults.scene import mutant
from tests.faults.scene import sql as text_of
from tests.faults.still import PLACES
from tests.integration.conftest import Room, wait_until

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
LEASE, MAX_RUN = 1, 6
# For ten backends to end, and the claims that find their rows free.
SLACK = 3.0
AT_THEIR_PLACES = """
select count(*)
from public.refresh_holders h
join pg_stat_activity a on a.pid = h.pid
where h.function_name = 'idle'
  or a.wait_event = 'ClientRead' and h.function_name = 'copy_in'
  or a.wait_event = 'ClientWrite' and h.function_name in ('copy_out', 'read')
  or a.wait_event = 'PgSleep' and h.function_name = 'statement'
"""


@pytest.fixture
def runner(server: Server) -> Iterator[str]:
    """A login. Name it before the database, so that it is dropped after."""
    name = f"cronlease_test_{uuid4().hex[:12]}"
    with psycopg.connect(server.admin, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login password 'secret'").format(sql.Identifier(name)))
        yield name
        admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture
def dsns(runner: str, dsn: str) -> dict[str, str]:
    """The database as its owner and as a login of cronlease_runner."""
    migrate(dsn, roles=True)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create table effect (name text, request_id uuid)")
        conn.execute(sql.SQL("grant cronlease_runner to {}").format(sql.Identifier(runner)))
        conn.execute("grant all on effect to cronlease_runner")
    return {"owner": dsn, "runner": make_conninfo(dsn, user=runner, password="secret")}


@contextmanager
def at_their_places(dsn: str, owner: Room, log: Path, *way: str, max_run: int = MAX_RUN) -> Iterator[Served]:
    """A process with a run at every place; `way` puts it somewhere."""
    owner.query("truncate refresh_runs, effect; delete from refresh_schedule")
    environment = {
        "DATABASE_URL": dsn,
        "CRONLEASE_LEASE": f"{LEASE}s",
        "CRONLEASE_MAX_RUN": f"{max_run}s",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'functions'}",
    }
    with started([*way, sys.executable, "-m", "tests.faults.still"], log, **environment) as victim:
        wait_until(lambda: owner.query(AT_THEIR_PLACES) == [(len(PLACES),)])
        yield victim


@contextmanager
def frozen(dsn: str, owner: Room, log: Path) -> Iterator[list[str]]:
    """Runs at every place, in a process that is stopped there. When the block ends it goes on, and what it says of
    its runs then is put into the list."""
    told: list[str] = []
    with at_their_places(dsn, owner, log) as victim:
        os.killpg(victim.process.pid, signal.SIGSTOP)
        yield told
        os.killpg(victim.process.pid, signal.SIGCONT)
        wait_until(lambda: victim.process.poll() is not None, 30)
        told += [line["reason"] for line in victim.log() if "ok" in line]
    assert owner.query("select name from effect") == []


def make_overdue(owner: Room) -> None:
    owner.query("update refresh_runs set overdue_at = clock_timestamp()")


def taken_over(dsn: str, seconds: float, places: Collection[str] = PLACES) -> dict[str, float]:
    """Place -> after how long a hit of that login could claim its row; those that it could."""
    began = time.monotonic()
    found: dict[str, float] = {}
    claim = "select acquired from acquire_refresh_lock(%s, gen_random_uuid(), '1 h', p_force => true)"
    with psycopg.connect(dsn, autocommit=True) as conn:
        while len(found) < len(places) and time.monotonic() < began + seconds:
            for name in set(places) - found.keys():
                if conn.execute(claim, [name]).fetchone() == (True,):
                    found[name] = time.monotonic() - began
            time.sleep(0.02)
    return found


@pytest.mark.timeout(3600)
def test_a_frozen_holder_is_replaced_wherever_it_stands(
    dsns: dict[str, str], tmp_path: Path, profile: Profile
) -> None:
    owner, kept, longest = Room(dsns["owner"]), 0, 0.0
    rounds = profile.n("P30")
    for number in range(rounds):
        dsn = dsns[("runner", "owner")[number % 2]]
        with frozen(dsn, owner, tmp_path / str(number)) as told:
            if profile.name == "quick":
                make_overdue(owner)
            found = taken_over(dsn, LEASE + MAX_RUN + SLACK)
        kept += min(len(found), told.count("lease_lost"))
        longest = max(longest, *found.values())
    profile.record(
        "P30", kept, rounds * len(PLACES), longest_seconds=round(longest, 2), bound_seconds=LEASE + MAX_RUN
    )


@pytest.mark.thorough
def test_where_nobody_ends_it_a_holder_that_waits_for_its_client_is_not_replaced(
    dsns: dict[str, str], tmp_path: Path
) -> None:
    """The negative control."""
    owner = Room(dsns["owner"])
    owner.query(mutant(text_of("take_refresh_lock"), "r.overdue_at <= clock_timestamp()", "false"))
    with frozen(dsns["runner"], owner, tmp_path / "log"):
        make_overdue(owner)
        assert "copy_in" not in taken_over(dsns["runner"], LEASE + 1)
        owner.query("select unlock_refresh('copy_in')")


def test_a_holder_whose_cable_is_pulled_is_replaced_long_before_its_max_run(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has to notice it by itself: its keepalives and its data go unacknowledged. A statement at work asks
    nothing of the network, and ends with the time of its run."""
    socket = ["-c", f"unix_socket_directories={place}"]
    monkeypatch.setattr(server, "server_command", lambda *words, **more: [*server_command(*words, **more), *socket])
    place.chmod(0o777)
    with island() as away:
        with away.visit():
            embedded = server.EmbeddedPostgres.start(place / "pg", fsync=False)
        with embedded:
            # A socket in the file system works from everywhere.
            owner = Room(make_conninfo(embedded.dsn, host=str(place)))
            migrate(owner.dsn)
            owner.query("begin; set local tcp_keepalives_idle = 1; set local tcp_user_timeout = 1000; commit")
            owner.query("create table effect (name text, request_id uuid)")
            with at_their_places(embedded.dsn, owner, tmp_path / "log", *away.way, max_run=60):
                away.cut()
                places = PLACES.keys() - {"statement"}
                assert taken_over(owner.dsn, 20, places).keys() == places
