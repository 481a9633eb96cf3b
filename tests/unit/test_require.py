"""need: a missing tool skips with a sentence, and fails where it is required."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.require import need, need_package


def test_what_is_there_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CRONLEASE_HIDE", raising=False)
    (tmp_path / "libfound.so.1").touch()
    assert need("sh").endswith("/sh")
    assert need(Path(sys.executable).name)
    assert need("no-such-tool", str(tmp_path / "lib*.so.?")) == str(tmp_path / "libfound.so.1")
    assert need_package("cronlease").name == "cronlease"


@pytest.mark.parametrize("ask", [need, need_package])
def test_what_is_missing_skips_unless_it_is_required(
    ask: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both are caught each time: a skip that got out would skip this test, not fail it.
    either = (pytest.skip.Exception, pytest.fail.Exception)
    monkeypatch.setenv("CRONLEASE_REQUIRE", "uv,shellcheck")
    with pytest.raises(either, match="no_such_tool is not on this machine") as skipped:
        ask("no_such_tool")
    monkeypatch.setenv("CRONLEASE_REQUIRE", "uv,no_such_tool")
    with pytest.raises(either, match="no_such_tool is not on this machine") as failed:
        ask("no_such_tool")
    assert (skipped.type, failed.type) == either


@pytest.mark.parametrize("hidden", ["uv,sh,cronlease", "all"])
def test_what_is_hidden_is_missing(hidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    either = (pytest.skip.Exception, pytest.fail.Exception)
    monkeypatch.setenv("CRONLEASE_HIDE", hidden)
    with pytest.raises(either, match="sh is not on this machine"):
        need("sh")
    with pytest.raises(either, match="cronlease is not on this machine"):
        need_package("cronlease")
