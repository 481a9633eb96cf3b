"""Reads a request into a Hit: at most 64 KiB, JSON by content whatever its type says, strict types.

What a caller can get wrong is answered in one sentence that names the field, before anything is touched.
"""

import asyncio
import functools
import json
from datetime import UTC, datetime
from typing import Any

from starlette.requests import ClientDisconnect, Request

from cronlease import arguments
from cronlease.job import Hit
from cronlease.observe.redact import cut

MOST_BYTES = 64 * 1024
# Less than a process that is told to stop lets those finish that have begun.
_BODY_SECONDS = 5.0
_HEADER_LENGTH = 500
_FIELD_LENGTH = 50


class Refused(Exception):
    """The request is not one of ours; the text tells the caller what to send instead."""

    def __init__(
        self, http_status: int, reason: str, sentence: str, *, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.http_status = http_status
        self.reason = reason
        self.headers = headers or {}


async def read_hit(request: Request) -> Hit:
    """What was asked for, and who says so. Raises Refused."""
    headers: dict[bytes, bytes] = dict(request.scope["headers"])
    fields = _fields(await _body(request, headers))
    if b"x-cloudscheduler" not in headers:
        return Hit(**fields)
    job_name = _text(headers.get(b"x-cloudscheduler-jobname"))
    schedule_time = _text(headers.get(b"x-cloudscheduler-scheduletime"))
    at = _moment(schedule_time)
    return Hit(
        trigger="cloud_scheduler",
        job_name=job_name,
        schedule_time=schedule_time,
        # Each retry of a slot has the same name; one that cannot be read has none, and just runs.
        delivery=f"{job_name} {at:%Y-%m-%dT%H:%M:%S.%fZ}" if job_name and at else None,
        delivery_at=at,
        **fields,
    )


async def _body(request: Request, headers: dict[bytes, bytes]) -> bytes:
    length = headers.get(b"content-length", b"0")
    if length == b"0" and b"transfer-encoding" not in headers:
        return b""
    too_large = Refused(413, "body_too_large", f"the body is larger than {MOST_BYTES} bytes: send less in args")
    if length.isdigit() and int(length) > MOST_BYTES:
        raise too_large
    body = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise too_large
    except TimeoutError:
        sentence = f"the body did not arrive within {_BODY_SECONDS:g} s: send all of it at once"
        raise Refused(408, "body_too_slow", sentence, headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise Refused(400, "bad_request", "the caller hung up before the body was there") from None
    return body


def _fields(body: bytes) -> dict[str, Any]:
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
    return _validated(given)


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


def _moment(text: str | None) -> datetime | None:
    """In UTC; None where it is no time with a zone."""
    try:
        moment = datetime.fromisoformat(text or "")
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1").replace("\0", "")[:_HEADER_LENGTH]
