"""What a deployment can run: each name once, from a file that may have mistakes."""

import importlib
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cronlease import Run, registry, scheduled
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


def test_a_name_twice_in_one_file_is_refused(tmp_path: Path) -> None:
    again = "\n@scheduled\ndef tick(run: Run) -> None: ...\n"
    (tmp_path / "main.py").write_text(MAIN + again)
    with pytest.raises(SystemExit, match="two functions are registered as 'tick'"):
        registry.load_source(tmp_path / "main.py")


def test_a_module_may_be_reloaded_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "edited_jobs.py"
    path.write_text(MAIN)
    module = importlib.import_module("edited_jobs")
    path.write_text("# One more line, so that every function moves." + MAIN)
    importlib.invalidate_caches()
    importlib.reload(module)
    assert registry.jobs()["tick"].function.__code__.co_firstlineno == 4


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


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ({"every": "hit", "attempts": 3}, "only a slot of a beat or a cron has attempts, and hit has none"),
        ({"every": "1m..2m", "missed": "skip", "late": "5m"}, "has slots to skip, and 1m..2m has none"),
        ({"every": "6 hours"}, "'6 hours' is not a cadence: write a beat such as 6h"),
        ({"lease": "0s"}, "lease is 0s: a lease is at least 1s"),
        ({"cron": 5}, "cron is 5: write it as a text"),
    ],
)
def test_times_that_can_mean_nothing_are_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, when: Any, says: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/nowhere")
    with pytest.raises(SystemExit, match=re.escape(says)):
        scheduled(**when)(first)
