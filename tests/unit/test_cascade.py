import pytest

from cronlease.process.spawn_guard import is_spawned, parent


@pytest.mark.parametrize("value", [None, "", "0", " "])
def test_a_process_that_says_nothing_or_no_was_not_spawned(value: str | None) -> None:
    environment = {} if value is None else {"CRONLEASE_SPAWNED": value}
    assert not is_spawned(environment)
    assert parent(environment) is None


@pytest.mark.parametrize("value", ["1", "00", "whatever it says", "7c9e6679-7425-40de-944b-e07fc1f90ae7"])
def test_anything_else_says_that_it_was(value: str) -> None:
    assert is_spawned({"CRONLEASE_SPAWNED": value})
