"""As a user would have it beside the examples."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cronlease_setup() -> Path:
    """The tables that each test's database begins with."""
    return Path(__file__).parent / "schema.sql"
