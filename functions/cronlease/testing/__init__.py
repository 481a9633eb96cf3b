"""A pytest plugin: test your own timed function, in process, on a real PostgreSQL.

    from main import refresh_prices

    def test_a_second_hit_is_not_due(cronlease_client, due_now):
        client = cronlease_client(refresh_prices)
        assert client.hit()["status"] == "success"
        assert client.hit()["reason"] == "not_due"
        due_now("refresh_prices")
        assert client.hit()["status"] == "success"

Each test has a database of its own: a clone of one that migrate has built on an embedded server (`cronlease[local]`),
or on the one that CRONLEASE_TEST_DATABASE_URL names. What your function needs beside our schema is put into it once:
by a file that the ini option `cronlease_setup` names, or by what a fixture `cronlease_setup` of yours answers.

`hit` may be called from several threads at the same time, as a scheduler and a person may:

    with ThreadPoolExecutor(20) as threads:
        answers = [hit.result() for hit in [threads.submit(client.hit) for _ in range(20)]]
    assert [answer.get("status") for answer in answers].count("success") == 1

Imported by pytest at its start, so nothing heavy is imported before a fixture needs it.
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
        # Its directory must be open to the user that the server runs as.
        Path(place).chmod(0o755)
        with (
            EmbeddedPostgres.start(Path(place) / "pg", fsync=False) as server,
            Cluster(server.dsn_for("postgres"), ours=True) as cluster,
        ):
            yield cluster


def _given() -> Cluster:
    """The server that the variable names; one sentence where it cannot be used."""
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
    """What prepares the databases, beside our schema: the file of the ini option. Yours may answer a Path to such a
    file, a text of SQL, or a function that is called with the address of the database."""
    named: str = pytestconfig.getini("cronlease_setup")
    return pytestconfig.rootpath / named if named else None


@pytest.fixture
def cronlease_database(cronlease_cluster: Cluster, cronlease_setup: Setup) -> Iterator[str]:
    """The address of a database of this test's own, with our schema in it."""
    from psycopg.errors import InsufficientPrivilege

    from cronlease import registry
    from cronlease.db.migration.packages import of_actions
    from cronlease.emulator.setup import SetupError

    try:
        # The tests import what they test, so by now it is declared.
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
    """Give it a function that `@scheduled` has decorated; it is hit in this process, on this test's database."""
    from anyio.from_thread import start_blocking_portal

    from cronlease.process.shutdown import process
    from cronlease.settings import load

    monkeypatch.setenv("DATABASE_URL", cronlease_database)
    # The signals belong to the test runner.
    monkeypatch.setattr(process, "hook", lambda *_, **__: None)
    triggers: list[HttpTrigger] = []
    # An event loop in a thread of its own: any number of threads can wait for what it does.
    with start_blocking_portal() as portal:

        def client(target: Any) -> Client:
            trigger = getattr(target, "trigger", None)
            if trigger is None:
                raise TypeError("cronlease_client takes a function that @scheduled has decorated")
            if trigger not in triggers:
                trigger.move(load())
                triggers.append(trigger)
            return Client(trigger, portal)

        yield client
        for trigger in triggers:
            portal.call(trigger.close)


@pytest.fixture
def due_now(cronlease_database: str) -> Callable[[str], None]:
    """Makes a schedule due, as if its time had come."""

    def make_due(name: str) -> None:
        import psycopg

        from cronlease.db.schema import in_schema

        with psycopg.connect(cronlease_database, autocommit=True) as conn:
            text = "update public.refresh_schedule set next_run_at = clock_timestamp() where function_name = %s"
            if conn.execute(in_schema(text).encode(), [name]).rowcount == 0:
                raise LookupError(f"there is no schedule named {name!r} yet: hit the function once first")

    return make_due
