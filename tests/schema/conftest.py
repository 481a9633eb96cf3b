"""The SQL tests run on every server there is: the default one, and a system's own PostgreSQL when one is found."""

from collections.abc import Iterator

import pytest

from tests.conftest import CONFIGURED, Server, started
from tests.require import system_postgres

_SYSTEM = system_postgres() if CONFIGURED is None else None


@pytest.fixture(scope="session")
def system_server() -> Iterator[Server]:
    with started(_SYSTEM) as server:
        yield server


@pytest.fixture(params=["default", "system"] if _SYSTEM else ["default"])
def server(request: pytest.FixtureRequest) -> Server:
    which = "embedded_server" if request.param == "default" else "system_server"
    server: Server = request.getfixturevalue(which)
    return server
