"""What a verb prints about a run that has ended, in this process or over HTTP."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from cronlease.cli import output
from cronlease.cli.post import Answer
from cronlease.outcome import FailReason, Outcome, SkipReason, Status

TOMORROW = datetime(2026, 11, 17, tzinfo=UTC)


def test_a_hint_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    output.outcome(Outcome("tick", uuid4(), status=Status.SUCCESS, hint="acme was\nleft out"), in_json=False)
    assert capsys.readouterr().out == "tick: success in 0.00 s\n  acme was left out\n"
    paused = Outcome("a b", uuid4(), skipped=SkipReason.PAUSED)
    output.outcome(paused, in_json=False)
    said = "`cronlease schedule resume 'a b'` lets it run again"
    assert capsys.readouterr().out == f"a b: skipped, paused\n  {said}\n"
    assert output.hint_of(paused.as_json()) == said


def test_a_status_is_not_said_twice(capsys: pytest.CaptureFixture[str]) -> None:
    ended = Outcome("tick", uuid4(), failed=FailReason.INTERRUPTED, error="interrupted: it was told to stop")
    output.outcome(ended, in_json=False)
    assert capsys.readouterr().out == "tick: interrupted in 0.00 s: it was told to stop\n"
    assert Answer(503, ended.as_json()).line == "tick: interrupted (503): it was told to stop"


def test_how_to_force_it_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    hint = 'send {"force": true} to run now'
    early = Outcome("tick", uuid4(), skipped=SkipReason.NOT_DUE, next_run_at=TOMORROW, hint=hint)
    output.outcome(early, in_json=False)
    assert capsys.readouterr().out.count("\n") == 1
    assert output.hint_of(early.as_json()) is None


def test_the_hint_of_an_answer_is_a_text() -> None:
    assert output.hint_of({"ok": True, "hint": "acme was left out"}) == "acme was left out"
    assert output.hint_of({"ok": True, "hint": ["?"]}) is None
