"""The text of an alert: what a person needs, and nothing that harms a chat."""

from datetime import UTC, datetime

import pytest

from cronlease.observe.alert import Alert

SINCE = datetime(2026, 12, 24, 18, tzinfo=UTC)
PROBE = datetime(2026, 12, 25, 0, 30, tzinfo=UTC)


def alert(kind: str, error: str | None = None, name: str = "prune", times: int | None = 3) -> Alert:
    return Alert(1, "a", name, kind, SINCE, times, error, PROBE)


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("failing", "prune is failing, 3 runs in a row: boom."),
        ("breaker_open", "prune is stopped by its breaker after 3 runs in a row failed, until a probe at"),
        ("abandoned", "prune was abandoned, 3 runs in a row: boom."),
        ("late", "prune is late, it was due 2026-12-25 00:30 UTC, and nobody has run it."),
        ("recovered", "prune is well again. It had been in trouble since 2026-12-24 18:00 UTC."),
    ],
)
def test_each_says_what_happened_since_when_and_what_helps(kind: str, first: str) -> None:
    text = alert(kind, "boom.").text("https://a.example/status")
    assert text.startswith(first)
    assert "2026-12-24 18:00 UTC" in text
    assert text.endswith("\nStatus: https://a.example/status")
    assert ("`cronlease " in text) == (kind != "recovered")


def test_an_error_cannot_call_everybody_or_break_out() -> None:
    text = alert("failing", "no\nanswer <!channel> <https://evil|click> @here & @Everyone \x1b[2J").text()
    assert "no answer &lt;!channel&gt; &lt;https://evil|click&gt; @\u200bhere &amp; @\u200bEveryone" in text
    assert "\x1b" not in text


def test_it_has_no_secret_and_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter22")
    text = alert("failing", "hunter22 " * 1000).text()
    assert "hunter22" not in text
    assert len(text) < 1000


def test_a_name_is_quoted_for_the_shell() -> None:
    assert "`cronlease explain 'a b; rm -rf'` says" in alert("failing", name="a b; rm -rf").text()


def test_what_is_unknown_is_left_out() -> None:
    text = Alert(1, "a", "prune", "late").text()
    assert text.startswith("prune is late, it was due, and nobody has run it.\n")
