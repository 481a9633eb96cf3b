"""What a deployment can run: each name once, from a file that a person may have got wrong."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cronlease import Run, registry
from cronlease.job import Job
from cronlease.settings import Settings, SettingsError


def first(run: Run) -> None: ...


def second(run: Run) -> None: ...


def test_a_name_stands_for_one_function_and_the_same_one_may_come_again() -> None:
    registry.register(Job.of(first, Settings(), name="send"))
    registry.register(Job.of(first, Settings(), name="send"))
    with pytest.raises(ValueError, match="two functions are registered as 'send'"):
        registry.register(Job.of(second, Settings(), name="send"))
    assert registry.jobs()["send"].function is first


MAIN = """
from cronlease import Run, action, scheduled

@scheduled
async def tick(run: Run) -> None: ...

@action("send")
def send(run: Run) -> None: ...
"""


def test_a_file_declares_what_it_can_run(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(MAIN)
    registry.load_source(tmp_path / "main.py")
    registry.load_source(tmp_path / "main.py")
    assert {name: job.has_row for name, job in registry.jobs().items()} == {"tick": True, "send": False}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "there is no Python file"),
        ("import nowhere_to_be_found", "cannot be imported, ModuleNotFoundError"),
        ("def broken(:", "cannot be imported, SyntaxError"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str | None, sentence: str) -> None:
    path = tmp_path / "main.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        registry.load_source(path)


def yields(run: Run) -> Iterator[None]:
    yield


async def yields_too(run: Run) -> AsyncIterator[None]:
    yield


def takes_nothing() -> None: ...


def takes_two(run: Run, more: str) -> None: ...


@pytest.mark.parametrize("function", [yields, yields_too, takes_nothing, takes_two])
def test_what_would_never_run_is_refused_when_it_is_declared(function: Callable[..., Any]) -> None:
    with pytest.raises(SettingsError, match=r"a job (must not yield|takes one argument)"):
        Job.of(function, Settings())
