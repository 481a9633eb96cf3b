"""Log lines: a sentence and an action word, readable in a terminal, one JSON object a line elsewhere.

Secrets are taken out here, at the one place every line passes.
"""

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
from urllib.parse import unquote

logger = logging.getLogger("cronlease")

# Of the request that is being answered, as they came: they say which trace its lines belong to.
headers: ContextVar[Sequence[tuple[bytes, bytes]]] = ContextVar("headers", default=())

_FIELDS = "cronlease_fields"
_CLOUD = "logging.googleapis.com/"
_LABELS = ("request_id", "function", "action")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_CLOUD_TRACE = re.compile(r"([0-9a-fA-F]{32})(?:/(\d{1,20}))?(?:;o=(\d))?")
_LONGEST = 2000
_LONGEST_FIELD = 8_000
_LONGEST_TRACEBACK = 32_000
# Every text passes these, also what a stranger sends: each takes time in proportion to the text. So each starts at a
# fixed word, and no two attempts read the same stretch: one from "://" ends at the next "/", or takes the whole word.
_URL_SECRET = re.compile(r"(?<=://)[^\s/@:]*:(?P<rest>\S*)")
_USER_SECRET = re.compile(r"(?i)(?P<scheme>https?://)[^\s/@?#]+@")
_QUERY_SECRET = re.compile(r"(?P<address>://[^\s?#\"'<>:]*(?::(?!//)[^\s?#\"'<>:]*)*\?)[^\s\"'<>]+")
# A quote that is not closed hides all that follows: the text may have been cut there.
_WORD_SECRET = re.compile(r"(?i)(?P<key>password|passwd|pwd)(?P<is>\s*[=:]\s*)(?:'[^']*(?:'|\Z)|\S+)")
_SCHEMES = "(?i:bearer|basic|token)"
_HEADER_SECRET = re.compile(
    rf"(?P<key>(?i:authorization)[\"']?\s*[:=,]\s*b?[\"']?)(?:{_SCHEMES}\s+)?(?!{_SCHEMES}\b)[^\s\"',<]+"
)
# Not a word, as in "basic authentication".
_BEARER_SECRET = re.compile(r"\b(?P<scheme>(?i:bearer|basic)\s+)(?=[\w.~+/=-]*[0-9A-Z=+/])[\w.~+/=-]{6,}")
_WORDS = re.compile(r"[a-z_-]+")
_hidden: set[str] = set()


class Trace(NamedTuple):
    """A span of somebody else's, by its IDs in hexadecimal."""

    trace: str
    span: str
    sampled: bool


def log(level: int, message: str, *, action: str, cause: Any = None, **fields: Any) -> None:
    """One line: what happened, in words, and the same as fields. A cause, an exception, adds its traceback."""
    if logger.isEnabledFor(level):
        logger.log(level, message, exc_info=cause, extra={_FIELDS: {"action": action, **fields}})


def hide(*secrets: str) -> None:
    """Takes these out of every text from now on: what was not configured by the environment itself."""
    _hidden.update(secrets)


def redact(text: str) -> str:
    """The text without passwords and tokens: those in addresses, key=value pairs and Authorization headers, and the
    configured ones wherever they stand. What an address asks for (?...) is taken for a secret, too."""
    # Looked for before it is searched for: almost no line has one, and every line passes here.
    if "://" in text:
        text = _URL_SECRET.sub(_without_password, text)
        text = _USER_SECRET.sub(r"\g<scheme>***@", text)
        text = _QUERY_SECRET.sub(r"\g<address>***", text)
    lowered = text.lower()
    if "passw" in lowered or "pwd" in lowered:
        text = _WORD_SECRET.sub(r"\g<key>\g<is>***", text)
    if "authorization" in lowered or "bearer" in lowered or "basic" in lowered:
        text = _BEARER_SECRET.sub(r"\g<scheme>***", _HEADER_SECRET.sub(r"\g<key>***", text))
    for secret in _configured():
        text = text.replace(secret, "***")
    return text


def _without_password(found: re.Match[str]) -> str:
    # From the last @ on: a password may hold one itself, and too much hidden is better than too little.
    at = found["rest"].rfind("@")
    return found[0] if at < 0 else "***" + found["rest"][at:]


def cut(text: str, most: int) -> str:
    """At most so many characters, to be redacted afterwards. The end that no longer shows that it is a secret goes,
    too: an address without its @, half a bearer token, half of a configured secret."""
    if len(text) <= most:
        return text
    kept = text[:most]
    word = "" if kept[-1].isspace() else (kept.rsplit(maxsplit=1) or [""])[-1]
    before = kept[: len(kept) - len(word)]
    if before.rstrip().lower().endswith(("bearer", "basic")):
        kept = before
    elif "://" in word:
        kept = before + word[: word.index("://") + 3]
    for secret in _configured():
        half = next((size for size in range(len(secret) - 1, 0, -1) if kept.endswith(secret[:size])), 0)
        kept = kept[: len(kept) - half]
    return kept


def storable(text: str) -> str:
    """A text from anywhere made fit to be stored and answered: no secret, no NUL, only Unicode, not endless."""
    # Cut before, so that a long text costs no more than this, and after, since *** may be longer than a secret.
    return redact(cut(text, 2 * _LONGEST))[:_LONGEST].replace("\0", "").encode("utf-8", "replace").decode()


def printable(text: str) -> str:
    """The text with a question mark for whatever might move a cursor; its lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else " " if char.isspace() else "?" for char in text)


def _configured() -> list[str]:
    env = os.environ.get
    found = _secrets_of(
        env("DATABASE_URL", ""), env("PGPASSWORD", ""), env("CRONLEASE_TOKEN", ""), env("CRONLEASE_PING_URL", "")
    )
    return [*found, *_hidden]


@functools.cache
def _secrets_of(url: str, password: str, tokens: str, ping_url: str) -> list[str]:
    found = [password, *tokens.replace(",", " ").split()]
    if match := re.search(r"://[^/@]*?:(.*)@", url):
        found += [match[1], unquote(match[1])]
    if match := re.search(r"password\s*=\s*('[^']*'|[^\s&]+)", url):
        found += [match[1].strip("'"), unquote(match[1])]
    # Read wrongly, a password may show up in pieces. A very short one would blank out ordinary words.
    found += [piece for secret in found for piece in re.split(r"[@/:?#]", secret)]
    found = [secret for secret in found if len(secret) >= 4]
    # Who knows the path may check in. Its keys are secrets; a word in it may be a function's name.
    path = re.sub(r"^\w+://[^/?#]*", "", ping_url)
    parts = [path.partition("{function}")[0], *re.split(r"[/?&=#]|{function}", path)]
    found += [part for part in parts if len(part) >= 8 and not _WORDS.fullmatch(part)]
    return sorted(set(found), key=len, reverse=True)


_encode = json.JSONEncoder(default=lambda value: _clean(str(value)), ensure_ascii=False).encode


def incoming_trace() -> Trace | None:
    """The trace that the request came with."""
    found = dict(headers.get())
    if parent := _TRACEPARENT.match(found.get(b"traceparent", b"").decode("latin-1")):
        return Trace(parent[1], parent[2], bool(int(parent[3], 16) & 1))
    if cloud := _CLOUD_TRACE.match(found.get(b"x-cloud-trace-context", b"").decode("latin-1")):
        return Trace(cloud[1].lower(), f"{int(cloud[2] or 0):016x}", cloud[3] == "1")
    return None


def _trace() -> dict[str, Any]:
    """The trace of the request, in Cloud Logging's fields; nothing where it has none."""
    if (found := incoming_trace()) is None:
        return {}
    project = os.environ.get("GOOGLE_CLOUD_PROJECT")
    name = f"projects/{project}/traces/{found.trace}" if project else found.trace
    return {f"{_CLOUD}trace": name, f"{_CLOUD}spanId": found.span, f"{_CLOUD}trace_sampled": found.sampled}


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
        line = _clean(line)
        if record.exc_info:
            line["exception"] = redact(cut(self.formatException(record.exc_info), _LONGEST_TRACEBACK))
        return _encode(line)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return redact(cut(value, _LONGEST_FIELD))
    if isinstance(value, dict):
        return {name: _clean(each) for name, each in value.items()}
    return [_clean(each) for each in value] if isinstance(value, list | tuple) else value


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
