"""Reads a request into a Hit: at most 64 KiB, JSON whatever the content type says, strict types.

What a caller can get wrong is answered in one sentence that names the field, before anything is touched.
"""

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from cronlease import arguments
from cronlease.job import Hit
from cronlease.observe.redact import cut
from cronlease.outcome import SkipReason
from cronlease.process import spawn_guard
from cronlease.process.shutdown import process

MOST_BYTES = 64 * 1024
# Shorter than the default drain time.
_BODY_SECONDS = 5.0
_HEADER_LENGTH = 500
_SPAWNED = spawn_guard.HEADER.lower().encode()
_FIELD_LENGTH = 50

# As ASGI defines them.
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]


class Refused(Exception):
    """A request that is not accepted; the text tells the caller what to send instead."""

    def __init__(
        self, http_status: int, reason: str, sentence: str, *, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.http_status = http_status
        self.reason = reason
        self.headers = headers or {}


def place(scope: Scope) -> tuple[str, str]:
    """Where we are mounted, and the path from there on, without a slash at its end. Some hosts leave the mount's part
    in the path; some take it away without a word, and only the raw path still has it."""
    root: str = scope.get("root_path", "").rstrip("/")
    path: str = scope["path"].rstrip("/")
    if root:
        return root, (path.removeprefix(root) if f"{path}/".startswith(f"{root}/") else path) or "/"
    whole = scope.get("raw_path", b"").decode("latin-1").rstrip("/")
    return whole.removesuffix(path) if whole.endswith(path) else "", path or "/"


def not_allowed(method: str, path: str, allowed: Sequence[str]) -> Refused:
    how = f"use: curl -X POST <url>{path}" if "POST" in allowed else f"use: curl <url>{path}"
    sentence = f"{method} is not allowed here, {how}"
    return Refused(405, "method_not_allowed", sentence, headers={"Allow": ", ".join(allowed)})


def reason_to_skip(scope: Scope) -> SkipReason | None:
    """Why a hit is skipped without being read; None if it is not."""
    if process.draining:
        return SkipReason.SHUTTING_DOWN
    marks = [value.decode("latin-1") for name, value in scope["headers"] if name == _SPAWNED]
    if spawn_guard.is_spawned() or any(map(spawn_guard.is_marked, marks)):
        return SkipReason.SPAWNED
    return None


def is_vercel(scope: Scope) -> bool:
    """Whether it is a GET of Vercel's cron, by what it says of itself."""
    if scope["method"] != "GET":
        return False
    headers: dict[bytes, bytes] = dict(scope["headers"])
    return headers.get(b"user-agent", b"").startswith(b"vercel-cron/") or b"x-vercel-cron-schedule" in headers


async def read_hit(scope: Scope, receive: Receive) -> Hit:
    """What was asked for, and by which trigger. Raises Refused."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    delivery = _delivery(_text(headers.get(b"x-cronlease-delivery"), longest=MOST_BYTES))
    if is_vercel(scope):
        return Hit(trigger="vercel", job_name=_text(headers.get(b"x-vercel-cron-schedule")), delivery=delivery)
    body = await read_body(scope, receive)
    if b"ce-specversion" in headers or b"x-goog-pubsub-message-id" in headers:
        return _event(headers, body)
    given = _object(body)
    if "message" in given or "specversion" in given:
        return _event(headers, body)
    fields = _validated(given) if given else {}
    if b"x-cloudscheduler" in headers:
        # Its own slot names the delivery: a header that a person set there would be the same for every slot.
        job_name = _text(headers.get(b"x-cloudscheduler-jobname"))
        slot = _text(headers.get(b"x-cloudscheduler-scheduletime"))
        return Hit.of_slot("cloud_scheduler", job_name, slot, **fields)
    return Hit("http" if delivery else "manual", delivery=delivery, **fields)


def _event(headers: dict[bytes, bytes], body: bytes) -> Hit:
    from cronlease.triggers.events import read_event

    try:
        hit = read_event({name.decode("latin-1"): _text(value) or "" for name, value in headers.items()}, body)
        arguments.encode({"args": hit.args, "job_name": hit.job_name, "delivery": hit.delivery})
    except (ValueError, RecursionError) as error:
        raise Refused(400, "bad_request", f"the event cannot be used: {_reason(error)}") from None
    return hit._replace(job_name=(hit.job_name or "")[:_HEADER_LENGTH] or None, delivery=_delivery(hit.delivery))


def _delivery(name: str | None) -> str | None:
    """Refuses a name that is too long: if names were cut, two could become the same."""
    if name and len(name) > _HEADER_LENGTH:
        raise Refused(400, "bad_request", f"the name of a delivery has at most {_HEADER_LENGTH} characters")
    return name or None


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """The whole body. Raises Refused if it is too large or too slow."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    length = headers.get(b"content-length", b"0")
    # From HTTP/2 on neither header is needed for a body.
    says_so = scope.get("http_version", "1.1").startswith("1")
    if length == b"0" and b"transfer-encoding" not in headers and says_so:
        return b""
    too_large = Refused(413, "body_too_large", f"the body is larger than {MOST_BYTES} bytes: send less in args")
    if length.isdigit() and int(length) > MOST_BYTES:
        raise too_large
    body, is_all = b"", False
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while not is_all:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "bad_request", "the caller hung up before the body arrived")
                body += message.get("body", b"")
                is_all = not message.get("more_body", False)
                if len(body) > MOST_BYTES:
                    raise too_large
    except TimeoutError:
        sentence = f"the body did not arrive within {_BODY_SECONDS:g} s: send it in one piece"
        raise Refused(408, "body_too_slow", sentence, headers={"Connection": "close"}) from None
    return body


def _object(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        given = arguments.decode(body)
    except (ValueError, RecursionError) as error:
        why = _reason(error)
        raise Refused(
            400, "bad_request", f'the body is not JSON ({why}): send nothing or {{"force": true}}'
        ) from None
    if not isinstance(given, dict):
        raise Refused(400, "bad_request", 'the body must be a JSON object, such as {"force": true}')
    return given


def _reason(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    is_plain = isinstance(error, ValueError) and not isinstance(error, UnicodeError)
    return str(error) if is_plain else "not UTF-8, or nested too deep"


def _validated(given: dict[str, Any]) -> dict[str, Any]:
    from pydantic import ValidationError

    try:
        fields: dict[str, Any] = _model()(**given).model_dump()
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(cut(str(part), _FIELD_LENGTH) for part in first["loc"][:2])
        if first["type"] == "extra_forbidden":
            raise Refused(400, "bad_request", f"{field}: unknown field, the fields are force and args") from None
        raise Refused(400, "bad_request", f"{field}: {first['msg'].lower()}") from None
    try:
        arguments.encode(fields["args"])
    except ValueError as error:
        raise Refused(400, "bad_request", f"args: {error}") from None
    return fields


@functools.cache
def _model() -> Any:
    # Built at the first hit that has a body; most have none, and a model takes a while to build.
    from pydantic import ConfigDict, JsonValue, create_model

    return create_model(
        "Body",
        __config__=ConfigDict(extra="forbid", strict=True),
        force=(bool, False),
        args=(dict[str, JsonValue], {}),
    )


def _text(header: bytes | None, longest: int = _HEADER_LENGTH) -> str | None:
    return None if header is None else header.decode("latin-1").replace("\0", "")[:longest]
