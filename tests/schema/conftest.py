"""The SQL tests run on every server there is: the default one, and a system's own PostgreSQL when one is found."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import CONFIGURED, Server, started


def _system_bin_dir() -> Path | None:
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if found := shutil.which("postgres"):
        places.insert(0, Path(found).resolve().parent)
    return next((place for place in places if (place / "initdb").exists()), None)


_SYSTEM = _system_bin_dir() if CONFIGURED is None else None


@pytest.fixture(scope="session")
def system_server() -> Iterator[Server]:
    with started(_SYSTEM) as server:
        yield server


@pytest.fixture(params=["default", "system"] if _SYSTEM else ["default"])
def server(request: pytest.FixtureRequest) -> Server:
    which = "embedded_server" if request.param == "default" else "system_server"
    server: Server = request.getfixturevalue(which)
    return server
