import io
import json
import logging
from collections.abc import Iterator

import pytest

from cronlease import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    level, propagate = logs.logger.level, logs.logger.propagate
    yield
    for handler in [handler for handler in logs.logger.handlers if isinstance(handler, logs.OurHandler)]:
        logs.logger.removeHandler(handler)
    logs.logger.setLevel(level)
    logs.logger.propagate = propagate


def test_outside_a_terminal_each_line_is_one_json_object() -> None:
    stream = io.StringIO()
    logs.configure("INFO", stream)
    logs.log(logging.INFO, "Skipped f: locked", action="run_skipped", reason="locked", holder=None)
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        logs.log(logging.ERROR, "It failed", action="run_failed", cause=error)
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first["severity"] == "INFO"
    assert first["message"] == "Skipped f: locked"
    assert first["action"] == "run_skipped"
    assert first["reason"] == "locked"
    assert "ValueError: two" in second["exception"]


@pytest.mark.parametrize(
    ("headers", "trace", "span", "sampled"),
    [
        ({"traceparent": f"00-{'ab' * 16}-00f067aa0ba902b7-01"}, "ab" * 16, "00f067aa0ba902b7", True),
        ({"x-cloud-trace-context": f"{'CD' * 16}/255;o=1"}, "cd" * 16, f"{255:016x}", True),
        ({"x-cloud-trace-context": "cd" * 16}, "cd" * 16, "0" * 16, False),
        (
            {"x-cloud-trace-context": f"{'cd' * 16}/1;o=1", "traceparent": f"00-{'ab' * 16}-{'1' * 16}-00"},
            "ab" * 16,
            "1" * 16,
            False,
        ),
        ({"x-cloud-trace-context": "\xff", "traceparent": "00-00"}, None, None, None),
    ],
)
def test_a_line_says_which_trace_and_run_it_belongs_to(
    headers: dict[str, str],
    trace: str | None,
    span: str | None,
    sampled: bool | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "acme")
    stream = io.StringIO()
    logs.configure("INFO", stream)
    token = logs.headers.set([(name.encode(), value.encode("latin-1")) for name, value in headers.items()])
    try:
        logs.log(logging.INFO, "Ran f", action="run_finished", function="f", request_id="7", fetched=3)
    finally:
        logs.headers.reset(token)
    line = json.loads(stream.getvalue())
    assert line.get("logging.googleapis.com/trace") == (trace and f"projects/acme/traces/{trace}")
    assert line.get("logging.googleapis.com/spanId") == span
    assert line.get("logging.googleapis.com/trace_sampled") == sampled
    labels = {"request_id": "7", "function": "f", "action": "run_finished"}
    assert line["logging.googleapis.com/labels"] == labels


def test_in_a_terminal_a_line_is_a_sentence() -> None:
    stream = Terminal()
    logs.configure("INFO", stream)
    logs.log(logging.WARNING, "Skipped f: paused", action="run_skipped", reason="paused")
    assert "WARNING Skipped f: paused  action=run_skipped reason=paused" in stream.getvalue()


def test_a_level_below_the_configured_one_is_silent() -> None:
    stream = io.StringIO()
    logs.configure("INFO", stream)
    logs.log(logging.DEBUG, "Skipped f: not_due", action="run_skipped")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:s3cret!@host/db",
        "postgresql://me:s3cret!@ho@st:5432/db?x=1",
        "bad dsn 'postgres://u:a/b:s3cret!@h'",
        "host=h password=s3cret! dbname=d",
        "host=h password = 's3cret! and more' dbname=d",
        "PGPASSWORD: s3cret!",
    ],
)
def test_a_password_never_passes(text: str) -> None:
    assert "s3cret!" not in logs.redact(text)


def test_the_configured_password_is_taken_out_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:p%40ss%22word@h/d")
    stream = io.StringIO()
    logs.configure("INFO", stream)
    logs.log(logging.ERROR, 'said p@ss"word aloud', action="x", field='p@ss"word', nested=['p@ss"word'])
    line = json.loads(stream.getvalue())
    assert "ss" not in line["message"].replace("said", "").replace("***", "")
    assert line["field"] == "***"
