"""The SQL tests run on the default server and, in a thorough run, on the machine's own PostgreSQL, too."""

from collections.abc import Iterator

import pytest

from tests.conftest import CONFIGURED, Server, started
from tests.require import need_postgres

_SYSTEM = pytest.param("system", marks=pytest.mark.thorough)


@pytest.fixture(scope="session")
def system_server() -> Iterator[Server]:
    with started(need_postgres()) as server:
        yield server


@pytest.fixture(params=["default"] if CONFIGURED else ["default", _SYSTEM])
def server(request: pytest.FixtureRequest) -> Server:
    which = "embedded_server" if request.param == "default" else "system_server"
    server: Server = request.getfixturevalue(which)
    return server
