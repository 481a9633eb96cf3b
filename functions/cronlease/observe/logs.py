"""Log lines: a sentence and an action word, readable in a terminal, one JSON object a line elsewhere.

Every line is redacted here, in the two formatters.
"""

import json
import logging
import os
import re
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, NamedTuple, TextIO

from cronlease.observe.redact import cut, printable, redact, redact_value

logger = logging.getLogger("cronlease")

# Of the request that is being answered, as they came: they say which trace its lines belong to.
headers: ContextVar[Sequence[tuple[bytes, bytes]]] = ContextVar("headers", default=())

_FIELDS = "cronlease_fields"
_CLOUD = "logging.googleapis.com/"
_LABELS = ("request_id", "function", "action")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_CLOUD_TRACE = re.compile(r"([0-9a-fA-F]{32})(?:/(\d{1,20}))?(?:;o=(\d))?")
_LONGEST_FIELD = 8_000
_LONGEST_TRACEBACK = 32_000


class Trace(NamedTuple):
    """A span of somebody else's, by its IDs in hexadecimal."""

    trace: str
    span: str
    sampled: bool


def log(level: int, message: str, *, action: str, cause: Any = None, **fields: Any) -> None:
    """One line: what happened, in words, and the same as fields. A cause, an exception, adds its traceback."""
    if logger.isEnabledFor(level):
        logger.log(level, message, exc_info=cause, extra={_FIELDS: {"action": action, **fields}})


_encode = json.JSONEncoder(default=lambda value: redact_value(str(value), _LONGEST_FIELD), ensure_ascii=False).encode


def incoming_trace() -> Trace | None:
    """The trace that the request came with."""
    given = dict(headers.get())
    if parent := _TRACEPARENT.match(given.get(b"traceparent", b"").decode("latin-1")):
        return Trace(parent[1], parent[2], bool(int(parent[3], 16) & 1))
    if cloud := _CLOUD_TRACE.match(given.get(b"x-cloud-trace-context", b"").decode("latin-1")):
        return Trace(cloud[1].lower(), f"{int(cloud[2] or 0):016x}", cloud[3] == "1")
    return None


def _trace() -> dict[str, Any]:
    """The trace of the request, in Cloud Logging's fields; nothing where it has none."""
    if (trace := incoming_trace()) is None:
        return {}
    project = os.environ.get("GOOGLE_CLOUD_PROJECT")
    name = f"projects/{project}/traces/{trace.trace}" if project else trace.trace
    return {f"{_CLOUD}trace": name, f"{_CLOUD}spanId": trace.span, f"{_CLOUD}trace_sampled": trace.sampled}


class JsonFormatter(logging.Formatter):
    """The shape Cloud Logging reads: severity, message, time, trace and labels, and the fields beside them."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, _FIELDS, {})
        line: dict[str, Any] = {
            "severity": record.levelname,
            "message": record.getMessage(),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            **fields,
            f"{_CLOUD}labels": {name: str(fields[name]) for name in _LABELS if fields.get(name)},
            **_trace(),
        }
        # Before the encoding: afterwards a secret may be escaped beyond recognition.
        line = redact_value(line, _LONGEST_FIELD)
        if record.exc_info:
            line["exception"] = redact(cut(self.formatException(record.exc_info), _LONGEST_TRACEBACK))
        return _encode(line)


class TextFormatter(logging.Formatter):
    """The same for a person: time, level, sentence, then the fields dimmed by their place at the end, and where an
    error came from unless nobody wants to know."""

    def __init__(self, *, tracebacks: bool = True) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, _FIELDS, {})
        said = cut(record.getMessage(), _LONGEST_FIELD)
        told = {name: cut(str(value), _LONGEST_FIELD) for name, value in fields.items() if value is not None}
        tail = " ".join(f"{name}={value}" for name, value in told.items())
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        text = redact(f"{moment} {record.levelname:<7} {said}  {tail}".rstrip())
        # One line, and the traceback is indented: nothing in a job's error can look like a line of ours.
        lines = [" ".join(text.splitlines())]
        if record.exc_info and self._tracebacks:
            trace = redact(cut(self.formatException(record.exc_info), _LONGEST_TRACEBACK))
            lines += [f"  | {line}" for line in trace.splitlines()]
        return printable("\n".join(lines))


class OurHandler(logging.StreamHandler[TextIO]):
    """Only a type of its own, so that it is added once."""


def configure(level: str, stream: TextIO | None = None, *, tracebacks: bool = True) -> None:
    """Gives our logger its handler, once: whoever imports us may have set up logging, we do not lean on it. Without
    tracebacks is for a terminal alone."""
    if any(isinstance(handler, OurHandler) for handler in logger.handlers):
        return
    stream = stream or sys.stderr
    handler = OurHandler(stream)
    handler.setFormatter(TextFormatter(tracebacks=tracebacks) if stream.isatty() else JsonFormatter())
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
