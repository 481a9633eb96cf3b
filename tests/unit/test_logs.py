import io
import json
import logging

import pytest

from cronlease.observe import logs
from cronlease.observe.redact import hide, redact, storable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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


@pytest.mark.parametrize("tracebacks", [True, False])
def test_a_job_s_error_cannot_move_the_cursor_of_a_terminal(tracebacks: bool) -> None:
    stream = Terminal()
    logs.configure("INFO", stream, tracebacks=tracebacks)
    error = ValueError("\x1b[2Jlost\r\x9b1m\u202e\u00a0\n\tkept")
    logs.log(logging.ERROR, f"It did not end well: {error}", action="run_failed", cause=error)
    said = stream.getvalue()
    assert "It did not end well: ?[2Jlost ?1m?  \tkept" in said
    assert all(char.isprintable() or char in "\n\t" for char in said)
    assert ("ValueError: ?[2Jlost" in said) == tracebacks


@pytest.mark.parametrize("end", ["\n", "\r\n", "\v", "\x85", "\u2028"])
@pytest.mark.parametrize("tracebacks", [True, False])
def test_a_job_s_error_cannot_forge_a_line_of_the_terminal(tracebacks: bool, end: str) -> None:
    stream = Terminal()
    logs.configure("INFO", stream, tracebacks=tracebacks)
    error = ValueError(f"no luck{end}12:00:00 INFO    tick ended well")
    logs.log(logging.ERROR, f"It did not end well: {error}", action="run_failed", cause=error, error=str(error))
    first, *others = stream.getvalue().splitlines()
    assert first.count("tick ended well") == 2
    assert bool(others) == tracebacks
    assert all(line.startswith("  | ") for line in others)


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
        "postgresql://host/db?user=me&password=s3cret!&sslmode=require",
        "asked https://feeds.example/jobs?key=s3cret! and was refused",
        "https://s3cret!@feeds.example/jobs",
        "Authorization: Bearer s3cret!",
        "{'authorization': 'Basic s3cret!'}",
        "[(b'authorization', b'Bearer s3cret!')]",
        'headers={"Authorization": "s3cret!"}',
    ],
)
def test_a_password_never_passes(text: str) -> None:
    assert "s3cret!" not in redact(text)


def test_the_configured_password_is_taken_out_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:p%40ss%22word@h/d")
    stream = io.StringIO()
    logs.configure("INFO", stream)
    logs.log(logging.ERROR, 'said p@ss"word aloud', action="x", field='p@ss"word', nested=['p@ss"word'])
    line = json.loads(stream.getvalue())
    assert "ss" not in line["message"].replace("said", "").replace("***", "")
    assert (line["field"], line["nested"]) == ("***", ["***"])


def test_a_bearer_token_never_passes() -> None:
    assert "eyJhbGciOi" not in redact("it sent bearer eyJhbGciOi.e30.x")


@pytest.mark.parametrize(
    "text",
    [
        "send the header Authorization: Bearer <token>",
        "the Authorization header is not one bearer token: send it once",
        "basic authentication is not for us",
        "the database at postgresql://me@host:5432/db is asleep",
        "GET https://feeds.example/jobs#top answered 404",
    ],
)
def test_a_text_without_a_secret_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_a_secret_that_is_cut_off_at_the_end_of_a_long_text_is_still_recognised() -> None:
    text = "x" * 1980 + " postgresql://me:s3cret!@host/db"
    assert "s3" not in storable(text)


def test_what_is_hidden_by_name_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronlease.observe.redact._hidden", set())
    hide("a-token-from-a-file")
    assert redact("said a-token-from-a-file aloud") == "said *** aloud"


@pytest.mark.parametrize(
    ("address", "said", "left"),
    [
        ("https://hc.example/ping/9f0cbe4e-2cd9", "sent to hc.example/ping/9f0cbe4e-2cd9", "sent to hc.example***"),
        ("https://hc.example/fqOOd6MMNu/{function}", "fqOOd6MMNu of tick", "*** of tick"),
        ("https://hc.example/{function}?key=fqOOd6MMNu", "fqOOd6MMNu of tick", "*** of tick"),
        (
            "https://hc.example/k/refresh_opening_signals",
            "refresh_opening_signals ran",
            "refresh_opening_signals ran",
        ),
        ("https://hc.example/", "https://hc.example/ is a/b", "https://hc.example/ is a/b"),
    ],
)
def test_where_runs_check_in_is_a_secret_but_a_functions_name_in_it_is_not(
    address: str, said: str, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRONLEASE_PING_URL", address)
    assert redact(said) == left


def test_every_address_for_alerts_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONLEASE_ALERT_URL", "https://a.example/x/fqOOd6MMNu,https://b.example/?key=gqOOd6MMNu")
    assert redact("sent fqOOd6MMNu and gqOOd6MMNu to a.example") == "sent *** and *** to a.example"
