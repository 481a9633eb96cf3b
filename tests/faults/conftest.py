"""What the fault tests break: the function as it is deployed, and the database under it."""

from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import Serve, serving
from tests.conftest import Server
from tests.faults import profile as profiles
from tests.faults.crashing import Crashing, crashing_server
from tests.faults.profile import Profile
from tests.faults.scene import Scene, playing
from tests.integration.conftest import Room


@pytest.fixture
def serve() -> Iterator[Serve]:
    with serving() as start:
        yield start


@pytest.fixture
def room(dsn: str) -> Room:
    return Room(dsn)


@pytest.fixture
def profile(request: pytest.FixtureRequest) -> Profile:
    return profiles.of(request.config)


@pytest.fixture(scope="session")
def stage(embedded_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One scene for all tests: starting servers is what takes the time."""
    with playing(embedded_server, tmp_path_factory.mktemp("scene")) as scene:
        yield scene


@pytest.fixture
def scene(stage: Scene) -> Scene:
    stage.reset()
    return stage


@pytest.fixture(scope="session")
def crashing() -> Iterator[Crashing]:
    with crashing_server() as server:
        yield server
