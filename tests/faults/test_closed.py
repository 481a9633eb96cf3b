"""P9: a database that cannot be used, in eight ways: no run, an answer in time, and the password nowhere."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.conftest import FUNCTIONS, Served, serving
from tests.conftest import Server
from tests.faults.profile import Profile
from tests.faults.scene import NAME, Feed
from tests.integration.conftest import Room, wait_until
from tests.proxy import Proxy, proxied

SECRET = "canary-s3cret-7f1c"
ACQUIRE_SECONDS = 1


class Closed:
    """A function whose database can be taken away. It connects as a role that is no superuser."""

    def __init__(self, server: Server, name: str, proxy: Proxy, feed: Feed) -> None:
        self.server, self.name, self.proxy, self.feed = server, name, proxy, feed
        self.room = Room(server.url(name))
        self.role = f"closed_{uuid4().hex[:8]}"
        self.admin(f"create role {self.role} login password '{SECRET}'; grant {self._owner()} to {self.role}")
        self.dsn = make_conninfo(proxy.dsn, user=self.role, password=SECRET)
        self.environment = {
            "CRONLEASE_SOURCES": str(feed.sources),
            "CRONLEASE_ACQUIRE_TIMEOUT": f"{ACQUIRE_SECONDS}s",
        }

    def admin(self, text: str) -> None:
        """Outside of the function's database."""
        with psycopg.connect(self.server.admin, autocommit=True) as conn:
            conn.execute(text)

    def tries(self, text: str) -> bool:
        """Whether it could be done: some of it takes a database that nobody uses."""
        try:
            self.admin(text.format(role=self.role, name=self.name))
        except psycopg.errors.ObjectInUse:
            return False
        return True

    def alone(self) -> bool:
        """Whether nobody uses the database, once whoever did has been cut off."""
        self.proxy.cut()
        with psycopg.connect(self.server.admin, autocommit=True) as conn:
            return conn.execute(_SESSIONS, [[self.name, f"{self.name}_away"]]).fetchone() is None

    def _owner(self) -> str:
        ((owner,),) = self.room.query("select current_user")
        return str(owner)


@contextmanager
def refused(closed: Closed) -> Iterator[None]:
    closed.proxy.shut()
    yield
    closed.proxy.reopen()


@contextmanager
def deaf(closed: Closed) -> Iterator[None]:
    """Connections are taken, and nobody speaks."""
    closed.proxy.silent = True
    yield
    closed.proxy.silent = False
    closed.proxy.cut()


@contextmanager
def black_holed(closed: Closed) -> Iterator[None]:
    """Not even a connection is answered: the queue of the port is full."""
    closed.proxy.shut()
    with socket.create_server(("127.0.0.1", closed.proxy.port), backlog=0):
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", closed.proxy.port))
        yield
        for filler in fillers:
            filler.close()
    closed.proxy.reopen()


def by_admin(broken: str, mended: str) -> Callable[[Closed], AbstractContextManager[None]]:
    @contextmanager
    def taken_away(closed: Closed) -> Iterator[None]:
        # A release of an earlier claim may still be on its way in the background, and open a session at any time.
        wait_until(lambda: closed.alone() and closed.tries(broken))
        closed.proxy.cut()
        wait_until(closed.alone)
        yield
        closed.admin(mended.format(role=closed.role, name=closed.name))
        closed.proxy.cut()

    return taken_away


@contextmanager
def wrong_schema(closed: Closed) -> Iterator[None]:
    closed.room.query("alter table refresh_schedule rename column locked_until to somebody_elses")
    yield
    closed.room.query("alter table refresh_schedule rename column somebody_elses to locked_until")


_SESSIONS = "select 1 from pg_stat_activity where datname = any (%s)"
READ_ONLY = "alter database {name} set default_transaction_read_only ="
KINDS: dict[str, Callable[[Closed], AbstractContextManager[None]]] = {
    "refused": refused,
    "deaf": deaf,
    "black-holed": black_holed,
    "wrong password": by_admin("alter role {role} password 'another'", f"alter role {{role}} password '{SECRET}'"),
    "read-only": by_admin(f"{READ_ONLY} on", f"{READ_ONLY} off"),
    "wrong schema": wrong_schema,
    "too many clients": by_admin("alter role {role} connection limit 0", "alter role {role} connection limit -1"),
    "missing": by_admin("alter database {name} rename to {name}_away", "alter database {name}_away rename to {name}"),
}


@pytest.fixture(scope="module")
def closed(embedded_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    name = embedded_server.migrated()
    feed = Feed(tmp_path_factory.mktemp("closed"))
    with proxied(embedded_server.url(name)) as proxy:
        closed = Closed(embedded_server, name, proxy, feed)
        yield closed
    feed.close()
    embedded_server.drop(name)
    closed.admin(f"drop role {closed.role}")


def violations(closed: Closed, served: Served, kind: str) -> list[str]:
    asked = closed.feed.asked
    with KINDS[kind](closed):
        began = time.monotonic()
        response = served.hit(json={"force": True})
        took = time.monotonic() - began
        contacted = closed.feed.asked - asked
    healed = served.hit(json={"force": True}).json()
    text = response.text + served.log_file.read_text() + str(closed.room.query("select r::text from refresh_runs r"))
    body = response.json()
    checks = {
        "it is a skip": (response.status_code, body["skipped"], body["reason"]) == (200, True, "schedule_read_error"),
        f"it was answered in time, not in {took:.1f} s": took <= ACQUIRE_SECONDS + 1,
        "no source was asked": contacted == 0,
        "the log says why": served.logged(request_id=body["request_id"])["action"] == "run_skipped",
        "the password is nowhere": SECRET not in text,
        "it heals by itself": healed.get("status") == "success",
    }
    return [f"{kind}: {check}" for check, holds in checks.items() if not holds]


@pytest.mark.timeout(1800)
def test_a_database_that_cannot_be_used_is_a_skip_in_time(closed: Closed, profile: Profile) -> None:
    with serving() as serve:
        served = serve(closed.dsn, target=NAME, source=FUNCTIONS / "main.py", **closed.environment)
        assert served.hit().json()["status"] == "success"
        seen = [violations(closed, served, kind) for _ in range(profile.n("P9")) for kind in KINDS]
    profile.record("P9", seen.count([]), len(seen), violations=list(chain(*seen)))


@pytest.mark.thorough
def test_a_function_that_runs_without_its_schedule_is_seen(closed: Closed) -> None:
    """The negative control: unreadable is taken for granted."""
    with serving() as serve:
        source = Path(__file__).with_name("fail_open.py")
        served = serve(closed.dsn, target=NAME, source=source, **closed.environment)
        found = violations(closed, served, "refused")
    assert {"refused: it is a skip", "refused: no source was asked"} <= set(found)
