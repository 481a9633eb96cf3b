"""A pytest plugin: test your own timed function, in process, on a real PostgreSQL.

    from main import refresh_prices

    def test_a_second_hit_is_not_due(cronlease_client, due_now):
        client = cronlease_client(refresh_prices)
        assert client.hit()["status"] == "success"
        assert client.hit()["reason"] == "not_due"
        due_now("refresh_prices")
        assert client.hit()["status"] == "success"

Each test has its own database: a clone of one that migrate built, on an embedded server (`cronlease[local]`) or on
the one that CRONLEASE_TEST_DATABASE_URL names. The ini option `cronlease_setup` names a file of SQL that adds what
your function needs beside our schema; or override the fixture `cronlease_setup`.

`hit` may be called from several threads at the same time, like hits of a scheduler and a person:

    with ThreadPoolExecutor(20) as threads:
        answers = [hit.result() for hit in [threads.submit(client.hit) for _ in range(20)]]
    assert [answer.get("status") for answer in answers].count("success") == 1

Pytest imports this module at its start, so heavy imports wait until a fixture needs them.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cronlease.testing.client import Client
from cronlease.testing.databases import Cluster, Setup

if TYPE_CHECKING:
    from cronlease.triggers.http import HttpTrigger

__all__ = ["Client", "Cluster", "Setup"]

_ADMIN = "CRONLEASE_TEST_DATABASE_URL"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("cronlease_setup", "A file of SQL that prepares the database of each test.", type="string")


@pytest.fixture(scope="session")
def cronlease_cluster() -> Iterator[Cluster]:
    """The server of the session."""
    if os.environ.get(_ADMIN):
        with _given() as cluster:
            yield cluster
        return
    from cronlease.embedded.server import EmbeddedPostgres

    with tempfile.TemporaryDirectory(prefix="cronlease-test-") as place:
        # The account that runs the server must be able to enter this directory.
        Path(place).chmod(0o755)
        with (
            EmbeddedPostgres.start(Path(place) / "pg", fsync=False) as server,
            Cluster(server.dsn_for("postgres"), ours=True) as cluster,
        ):
            yield cluster


def _given() -> Cluster:
    """The server that the variable names; fails with one sentence if it cannot be used."""
    from cronlease.db.conninfo import connect_sync, in_parts
    from cronlease.errors import DatabaseTrouble
    from cronlease.observe.redact import redact

    try:
        connect_sync(os.environ[_ADMIN]).close()
    except DatabaseTrouble as trouble:
        cause, remedy = (text.replace("DATABASE_URL", _ADMIN) for text in in_parts(trouble))
        pytest.fail(redact(f"{cause}: {remedy}"), pytrace=False)
    return Cluster(os.environ[_ADMIN])


@pytest.fixture(scope="session")
def cronlease_setup(pytestconfig: pytest.Config) -> Setup:
    """What your tests need in the database beside our schema: the file of the ini option. Your own fixture may return
    the Path of such a file, a text of SQL, or a function that is called with the address of the database."""
    named: str = pytestconfig.getini("cronlease_setup")
    return pytestconfig.rootpath / named if named else None


@pytest.fixture
def cronlease_database(cronlease_cluster: Cluster, cronlease_setup: Setup) -> Iterator[str]:
    """The address of this test's own database, with our schema in it."""
    from psycopg.errors import InsufficientPrivilege

    from cronlease import registry
    from cronlease.db.migration.packages import of_actions
    from cronlease.emulator.setup import SetupError

    try:
        # Tests import what they test, so the functions are declared by now.
        name = cronlease_cluster.migrated(cronlease_setup, of_actions(registry.jobs()))
    except SetupError as error:
        pytest.fail(str(error), pytrace=False)
    except InsufficientPrivilege:
        role = cronlease_cluster.role
        pytest.fail(
            f'the role "{role}" of {_ADMIN} may not create databases, and each test needs one: run'
            f' `alter role "{role}" createdb` as a superuser, or unset {_ADMIN} to use the embedded server',
            pytrace=False,
        )
    yield cronlease_cluster.url(name)
    cronlease_cluster.drop(name)


@pytest.fixture
def cronlease_client(cronlease_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Client]]:
    """Call it with a function that `@scheduled` decorates. Hits run in this process, on this test's database."""
    from anyio.from_thread import start_blocking_portal

    from cronlease.process.shutdown import process
    from cronlease.settings import load

    monkeypatch.setenv("DATABASE_URL", cronlease_database)
    # The signals belong to the test runner.
    monkeypatch.setattr(process, "hook", lambda *_, **__: None)
    triggers: list[HttpTrigger] = []
    # An event loop on its own thread: any number of threads can wait for it.
    with start_blocking_portal() as portal:

        def client(target: Any) -> Client:
            trigger = getattr(target, "trigger", None)
            if trigger is None:
                raise TypeError("cronlease_client takes a function that @scheduled decorates")
            if trigger not in triggers:
                trigger.move(load())
                triggers.append(trigger)
            return Client(trigger, portal)

        yield client
        for trigger in triggers:
            portal.call(trigger.close)


@pytest.fixture
def due_now(cronlease_database: str) -> Callable[[str], None]:
    """Makes a schedule due now."""

    def make_due(name: str) -> None:
        import psycopg

        from cronlease.db.schema import in_schema

        with psycopg.connect(cronlease_database, autocommit=True) as conn:
            text = "update public.refresh_schedule set next_run_at = clock_timestamp() where function_name = %s"
            if conn.execute(in_schema(text).encode(), [name]).rowcount == 0:
                raise LookupError(f"there is no schedule named {name!r} yet: hit the function once first")

    return make_due
