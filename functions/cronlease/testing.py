"""A pytest plugin: test your own timed function, in process, on a real PostgreSQL.

    from main import refresh_prices

    def test_a_second_hit_is_not_due(cronlease_client, due_now):
        client = cronlease_client(refresh_prices)
        assert client.hit()["status"] == "success"
        assert client.hit()["reason"] == "not_due"
        due_now("refresh_prices")
        assert client.hit()["status"] == "success"

Each test has a database of its own: a clone of one that migrate has built on an embedded server (`cronlease[local]`),
or on the one that CRONLEASE_TEST_DATABASE_URL names. Imported by pytest at its start, so it imports nothing itself.
"""

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import asyncio

    from cronlease.handler import Door

_ADMIN = "CRONLEASE_TEST_DATABASE_URL"


class Cluster:
    """A server that hands out databases: empty ones, or clones of one that migrate itself has built. `ours` is one
    that nobody else uses and whose disk nobody waits for."""

    def __init__(self, admin: str, *, ours: bool = False) -> None:
        import psycopg

        self.admin = admin
        self._connection = psycopg.connect(admin, autocommit=True)
        self._template = ""
        # Where a checkpoint costs nothing, copying files is the cheaper way, and the clone's first connection finds
        # the catalog cache that a copy through the log leaves out.
        copies = ours and self._connection.info.server_version >= 150000
        self._strategy = " strategy file_copy" if copies else ""

    def url(self, name: str) -> str:
        from psycopg.conninfo import make_conninfo

        return make_conninfo(self.admin, dbname=name)

    def create(self, template: str = "template0") -> str:
        """The name of a new database."""
        name = f"cronlease_test_{uuid.uuid4().hex[:12]}"
        self._send("create database {} template {}" + self._strategy, name, template)
        return name

    def migrated(self) -> str:
        """The name of a new database with our schema in it."""
        from cronlease.migrate import migrate

        if not self._template:
            self._template = self.create()
            migrate(self.url(self._template))
        return self.create(self._template)

    def drop(self, name: str) -> None:
        self._send("drop database if exists {} with (force)", name)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        if self._template:
            self.drop(self._template)
        self._connection.close()

    def _send(self, text: str, *names: str) -> None:
        from psycopg import sql

        self._connection.execute(sql.SQL(text).format(*map(sql.Identifier, names)))


class Client:
    """A function behind its HTTP door, without a server: `hit` answers the body, and the status as `http_status`."""

    def __init__(self, target: Any, runner: "asyncio.Runner") -> None:
        self._target = target
        self._runner = runner

    def hit(
        self,
        *,
        force: bool | None = None,
        args: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        path: str = "/",
        method: str = "POST",
    ) -> dict[str, Any]:
        """What the function answers to a caller on this machine; headers such as Cloud Scheduler's may be given."""
        import json

        given = {name: value for name, value in (("force", force), ("args", args)) if value is not None}
        body = json.dumps(given).encode() if given else b""
        raw = [
            (name.lower().encode(), value.encode())
            for name, value in {"Host": "localhost", **(headers or {})}.items()
        ]
        raw += [(b"content-length", str(len(body)).encode())]
        return self._runner.run(self._answer({"path": path, "method": method, "headers": raw}, body))

    async def _answer(self, scope: dict[str, Any], body: bytes) -> dict[str, Any]:
        import json

        from starlette.requests import Request

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        whole = {"type": "http", "http_version": "1.1", "query_string": b"", "server": ("testserver", 80), **scope}
        whole["client"] = ("127.0.0.1", 0)
        response = await self._target(Request(whole, receive))
        return {**json.loads(response.body), "http_status": response.status_code}


@pytest.fixture(scope="session")
def cronlease_cluster() -> "Iterator[Cluster]":
    """The server of the session."""
    if os.environ.get(_ADMIN):
        with Cluster(os.environ[_ADMIN]) as cluster:
            yield cluster
        return
    from cronlease.emulator.postgres import EmbeddedPostgres

    with tempfile.TemporaryDirectory(prefix="cronlease-test-") as place:
        # Its directory must be open to the user that the server runs as.
        Path(place).chmod(0o755)
        with (
            EmbeddedPostgres.start(Path(place) / "pg", fsync=False) as server,
            Cluster(server.dsn_for("postgres"), ours=True) as cluster,
        ):
            yield cluster


@pytest.fixture
def cronlease_database(cronlease_cluster: Cluster) -> Iterator[str]:
    """The address of a database of this test's own, with our schema in it."""
    name = cronlease_cluster.migrated()
    yield cronlease_cluster.url(name)
    cronlease_cluster.drop(name)


@pytest.fixture
def cronlease_client(cronlease_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Client]]:
    """Give it a function that `@scheduled` has decorated; it is hit in this process, on this test's database."""
    import asyncio

    from cronlease.lifecycle import process
    from cronlease.settings import load

    monkeypatch.setenv("DATABASE_URL", cronlease_database)
    # The signals belong to the test runner.
    monkeypatch.setattr(process, "hook", lambda *_: None)
    doors: list[Door] = []
    with asyncio.Runner() as runner:

        def client(target: Any) -> Client:
            door = getattr(target, "door", None)
            if door is None:
                raise TypeError("cronlease_client takes a function that @scheduled has decorated")
            door.move(load())
            doors.append(door)
            return Client(target, runner)

        yield client
        for door in doors:
            runner.run(door.close())


@pytest.fixture
def due_now(cronlease_database: str) -> Callable[[str], None]:
    """Makes a schedule due, as if its time had come."""

    def make_due(name: str) -> None:
        import psycopg

        with psycopg.connect(cronlease_database, autocommit=True) as conn:
            text = "update refresh_schedule set next_run_at = clock_timestamp() where function_name = %s"
            if conn.execute(text, [name]).rowcount == 0:
                raise LookupError(f"there is no schedule named {name!r} yet: hit the function once first")

    return make_due
