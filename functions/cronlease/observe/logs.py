"""Log lines: a sentence and an action word, readable in a terminal, one JSON object a line elsewhere.

Every line is redacted here, in the two formatters.
"""

import asyncio
import functools
import json
import logging
import os
import re
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, NamedTuple, TextIO

from cronlease.observe.redact import cut, may_hold_secret, printable, redact, redact_value
from cronlease.observe.writer import LineWriter

logger = logging.getLogger("cronlease")

# Those of the request that is being answered: they name the trace that its log lines belong to.
headers: ContextVar[Sequence[tuple[bytes, bytes]]] = ContextVar("headers", default=())

_FIELDS = "cronlease_fields"
_CLOUD = "logging.googleapis.com/"
_LABELS = ("request_id", "function", "action")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_CLOUD_TRACE = re.compile(r"([0-9a-fA-F]{32})(?:/(\d{1,20}))?(?:;o=(\d))?")
_LONGEST_FIELD = 8_000
_STANDARD_ERROR = 2
# Stands for a time or a request ID while the rest of a line is made; once encoded, nothing else looks like it.
_GAP = "\0"
_GAPS = 3
_LONGEST_TRACEBACK = 32_000


class Trace(NamedTuple):
    """Somebody else's span, by its IDs in hexadecimal."""

    trace: str
    span: str
    sampled: bool


def log(level: int, message: str, *, action: str, cause: Any = None, **fields: Any) -> None:
    """One line: what happened, in words and as fields. `cause`, an exception, adds its traceback."""
    if logger.isEnabledFor(level):
        trace = (type(cause), cause, cause.__traceback__) if cause is not None else None
        # Made here: logging would search the stack for the caller, which nobody shows.
        record = logger.makeRecord(logger.name, level, "", 0, message, (), trace)
        setattr(record, _FIELDS, {"action": action, **fields})
        logger.handle(record)


def log_often(level: int, message: str, *, action: str, request_id: str, **fields: Any) -> None:
    """Like `log`, for lines that come by the thousand and differ only in time and request ID: on a server's standard
    error, the rest of such a line is made once."""
    if not logger.isEnabledFor(level):
        return
    if _handler is None or _handler.writer is None or logger.handlers != [_handler]:
        log(level, message, action=action, request_id=request_id, **fields)
        return
    pieces = _line_with_gaps(logging.getLevelName(level), message, action, tuple(fields.items()))
    if len(pieces) != _GAPS + 1:
        log(level, message, action=action, request_id=request_id, **fields)
        return
    moment = datetime.now(UTC).isoformat()
    trace = f", {_encode(trace)[1:]}" if (trace := _trace()) else "}"
    _handler.writer.write(f"{pieces[0]}{moment}{pieces[1]}{request_id}{pieces[2]}{request_id}{pieces[3]}{trace}")


@functools.lru_cache(maxsize=256)
def _line_with_gaps(level: str, message: str, action: str, fields: tuple[tuple[str, Any], ...]) -> list[str]:
    """A line without secrets, in pieces. Its time, its request ID and the label of that belong between them; its
    trace and the closing brace are missing at the end."""
    line = _line(level, message, _GAP, {"action": action, "request_id": _GAP, **dict(fields)})
    return _encode(_redacted(line))[:-1].split(json.dumps(_GAP).strip('"'))


_encode = json.JSONEncoder(default=str, ensure_ascii=False).encode


def incoming_trace() -> Trace | None:
    """The trace that the request belongs to, if its headers name one."""
    given = dict(headers.get())
    if parent := _TRACEPARENT.match(given.get(b"traceparent", b"").decode("latin-1")):
        return Trace(parent[1], parent[2], bool(int(parent[3], 16) & 1))
    if cloud := _CLOUD_TRACE.match(given.get(b"x-cloud-trace-context", b"").decode("latin-1")):
        return Trace(cloud[1].lower(), f"{int(cloud[2] or 0):016x}", cloud[3] == "1")
    return None


def _trace() -> dict[str, Any]:
    """The trace of the request, in Cloud Logging's fields; empty if it has none."""
    if (trace := incoming_trace()) is None:
        return {}
    project = os.environ.get("GOOGLE_CLOUD_PROJECT")
    name = f"projects/{project}/traces/{trace.trace}" if project else trace.trace
    return {f"{_CLOUD}trace": name, f"{_CLOUD}spanId": trace.span, f"{_CLOUD}trace_sampled": trace.sampled}


class JsonFormatter(logging.Formatter):
    """The shape Cloud Logging reads: severity, message, time, trace and labels, and the fields beside them."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat()
        line = _line(record.levelname, record.getMessage(), moment, getattr(record, _FIELDS, {})) | _trace()
        if not record.exc_info:
            text = _encode(line)
            # Nearly every line is short and holds no secret.
            if len(text) <= _LONGEST_FIELD and "\\" not in text and not may_hold_secret(text):
                return text
        line = _redacted(line)
        if record.exc_info:
            line["exception"] = redact(cut(self.formatException(record.exc_info), _LONGEST_TRACEBACK))
        return _encode(line)


def _line(level: str, message: str, moment: str, fields: dict[str, Any]) -> dict[str, Any]:
    labels = {name: str(fields[name]) for name in _LABELS if fields.get(name)}
    return {"severity": level, "message": message, "time": moment, **fields, f"{_CLOUD}labels": labels}


def _redacted(line: dict[str, Any]) -> dict[str, Any]:
    """Before the final encoding, which may escape a secret beyond recognition."""
    redacted: dict[str, Any] = redact_value(json.loads(_encode(line)), _LONGEST_FIELD)
    return redacted


class TextFormatter(logging.Formatter):
    """The same for a person: time, level, sentence, then the fields, and optionally the traceback."""

    def __init__(self, *, tracebacks: bool = True) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, _FIELDS, {})
        message = cut(record.getMessage(), _LONGEST_FIELD)
        values = {name: cut(str(value), _LONGEST_FIELD) for name, value in fields.items() if value is not None}
        tail = " ".join(f"{name}={value}" for name, value in values.items())
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        text = redact(f"{moment} {record.levelname:<7} {message}  {tail}".rstrip())
        # One line, and an indented traceback: nothing in a job's error can look like a line of ours.
        lines = [" ".join(text.splitlines())]
        if record.exc_info and self._tracebacks:
            trace = redact(cut(self.formatException(record.exc_info), _LONGEST_TRACEBACK))
            lines += [f"  | {line}" for line in trace.splitlines()]
        return printable("\n".join(lines))


class OurHandler(logging.StreamHandler[TextIO]):
    """On an event loop it leaves writing a server's standard error to a thread: a reader that stands still then
    blocks only that thread."""

    def __init__(self, stream: TextIO, writer: LineWriter | None = None) -> None:
        super().__init__(stream)
        self.writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        if self.writer is None:
            super().emit(record)
        elif asyncio._get_running_loop() is None:
            self.writer.flush()
            super().emit(record)
        else:
            try:
                self.writer.write(self.format(record))
            except Exception:
                self.handleError(record)


_handler: OurHandler | None = None


def configure(level: str, stream: TextIO | None = None, *, tracebacks: bool = True) -> None:
    """Gives our logger its handler, once. Does not rely on logging that the host has set up. `tracebacks` matters
    only on a terminal."""
    global _handler
    if _handler in logger.handlers:
        return
    stream = stream or sys.stderr
    is_terminal = stream.isatty()
    handler = _handler = OurHandler(stream, None if is_terminal else _writer_of(stream))
    handler.setFormatter(TextFormatter(tracebacks=tracebacks) if is_terminal else JsonFormatter())
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False


def _writer_of(stream: TextIO) -> LineWriter | None:
    """Only for the standard error of the process: what a test or a program captures is there when it looks."""
    try:
        return _standard_error() if stream.fileno() == _STANDARD_ERROR else None
    except (OSError, ValueError, AttributeError):
        return None


@functools.cache
def _standard_error() -> LineWriter:
    return LineWriter(_STANDARD_ERROR)
