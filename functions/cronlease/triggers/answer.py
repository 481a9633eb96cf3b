"""What an HTTP request is answered, as ASGI sends it."""

import json
import logging
from typing import Any, NamedTuple
from uuid import UUID

from cronlease.observe import logs
from cronlease.triggers.request import Refused, Scope

_encode = json.JSONEncoder().encode


class Answer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def json_answer(
    body: dict[str, Any], request_id: UUID, status: int = 200, headers: dict[str, str] | None = None
) -> Answer:
    text = str(request_id)
    body["request_id"] = text
    content = (_encode(body) + "\n").encode()
    given = {"X-Request-Id": text, **(headers or {})}
    raw = [(name.lower().encode(), value.encode()) for name, value in given.items()]
    length = b"%d" % len(content)
    return Answer(status, [(b"content-length", length), (b"content-type", b"application/json"), *raw], content)


def log_refusal(scope: Scope, request_id: UUID, refused: Refused) -> None:
    """A scheduler whose token is old is to be seen from here, too; what was sent is not repeated."""
    if refused.http_status not in (404, 405):
        logs.log(
            logging.INFO,
            f"Refused a caller with {refused.http_status}: {refused}",
            action="hit_refused",
            reason=refused.reason,
            path=scope["path"],
            request_id=str(request_id),
        )
