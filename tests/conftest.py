"""Real servers for every test: the embedded one, or the one DATABASE_URL names, and a fresh database each."""

import json
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from cronlease import registry
from cronlease.embedded.server import EmbeddedPostgres
from cronlease.observe import logs
from cronlease.testing import Cluster
from tests.faults import profile

if "DATABASE_URL" in os.environ:
    # Out of reach of what is tested, and still known to the workers, which inherit our environment.
    os.environ["DATABASE_URL_OF_THE_TESTS"] = os.environ.pop("DATABASE_URL")
CONFIGURED = os.environ.get("DATABASE_URL_OF_THE_TESTS")
# The tests start hundreds of processes: without bytecode, each of them would compile our modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

Server = Cluster

# How long an example takes depends on the machine; pytest's timeout ends one that hangs.
settings.register_profile("cronlease", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cronlease")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of tests/faults, declared here: pytest reads options only from the conftest files above every test."""
    group = parser.getgroup("cronlease")
    words = profile.NAMES
    group.addoption("--profile", choices=words, default=words[0], help="how much the fault tests do")
    group.addoption("--seed", type=int, help="of the fault tests; random when not given")
    group.addoption("--figures", type=Path, default="faults.json", help="where a long profile writes its figures")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two for each core: many tests wait. None for single files or a choice of tests, with -s, or on a given server.

    A worker starts servers of its own, which a few tests do not repay. A given server is shared, and may not have
    the connections for two tests of fifty callers at the same time.
    """
    whole = all(Path(place).is_dir() for place in config.args)
    chosen = any(config.getoption(option, default=False) for option in ("keyword", "markexpr", "lf", "trace"))
    if not whole or chosen or config.getoption("capture") == "no" or CONFIGURED is not None:
        return 0
    return min(2 * (os.cpu_count() or 1), 8)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["seed"] = profile.of(node.config).seed


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collects the figures of a worker; one that died has sent none."""
    profile.of(node.config).figures += json.loads(getattr(node, "workeroutput", {}).get("figures", "[]"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    profile.finish(session.config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    profile.select(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Makes the output of a test reach us from its worker even if it has characters that cannot be encoded."""
    return _encodable((yield))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _encodable(each) for key, each in value.items()}
    return type(value)(map(_encodable, value)) if isinstance(value, list | tuple) else value


@contextmanager
def started(bin_dir: Path | None = None) -> Iterator[Server]:
    """A server of our own for the session."""
    with (
        directory_in_memory() as place,
        EmbeddedPostgres.start(place / "pg", bin_dir=bin_dir, fsync=False) as embedded,
        Server(embedded.dsn_for("postgres"), ours=True) as server,
    ):
        _make_logins_cheap(server)
        yield server


def _make_logins_cheap(server: Server) -> None:
    """Each login hashes the password 4096 times, to protect weak ones. Ours is random, and the tests log in thousands
    of times. PostgreSQL 15 and older have no such setting."""
    password = conninfo_to_dict(server.admin)["password"]
    with psycopg.connect(server.admin, autocommit=True) as conn:
        if conn.info.server_version >= 160000:
            conn.execute("set scram_iterations = 1")
            conn.execute(sql.SQL("alter role postgres password {}").format(sql.Literal(password)))


@contextmanager
def directory_in_memory() -> Iterator[Path]:
    """A directory open to the account that PostgreSQL runs as, in memory where there is room: much is written."""
    memory = Path("/dev/shm")
    _sweep(memory)
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2 * 1024**3
    prefix = f"cronlease-test-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=memory if roomy else None) as place:
        Path(place).chmod(0o755)
        yield Path(place)


def _sweep(memory: Path) -> None:
    """Removes what killed test runs have left: their servers ended with them, the directories did not."""
    for left in memory.glob("cronlease-test-*-*"):
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[Server]:
    with started() if CONFIGURED is None else Server(CONFIGURED) as server:
        yield server


@pytest.fixture(scope="session")
def cronlease_cluster(embedded_server: Server) -> Server:
    """Here the fixtures of our own plugin clone their databases on this server."""
    return embedded_server


@pytest.fixture(autouse=True)
def process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begins without the functions that other tests or modules have declared, and ends without the log handler of
    what was served in this process."""
    monkeypatch.setattr(registry, "_jobs", {})
    logger, (level, propagate) = logs.logger, (logs.logger.level, logs.logger.propagate)
    yield
    for handler in [handler for handler in logger.handlers if isinstance(handler, logs.OurHandler)]:
        logger.removeHandler(handler)
    logger.setLevel(level)
    logger.propagate = propagate


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty directory for a server of the test's own. Not tmp_path: root's is closed to PostgreSQL's account."""
    with directory_in_memory() as directory:
        yield directory


@pytest.fixture
def server(embedded_server: Server) -> Server:
    return embedded_server


@pytest.fixture
def dsn(server: Server) -> Iterator[str]:
    """A fresh database with our schema in it."""
    name = server.migrated()
    yield server.url(name)
    server.drop(name)


@pytest.fixture
def empty_dsn(server: Server) -> Iterator[str]:
    """A fresh database with nothing in it."""
    name = server.create()
    yield server.url(name)
    server.drop(name)


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection
