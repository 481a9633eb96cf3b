"""The answer to an HTTP request, as ASGI sends it."""

import functools
import json
import logging
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from cronlease.observe import logs
from cronlease.outcome import Outcome, SkipReason
from cronlease.triggers.request import Refused, Scope

_encode = json.JSONEncoder().encode
_NO_ID = UUID(int=0)


class Answer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def outcome_answer(outcome: Outcome) -> Answer:
    """The outcome in JSON. In a storm the skips differ only in their request IDs, so the rest is encoded once."""
    if outcome.skipped is None:
        return json_answer(outcome.as_json(), outcome.request_id, outcome.http_status)
    # What differs between skips, instead of the whole outcome: a key that is quick to make.
    before, after = _skip_around_id(
        outcome.function, outcome.skipped, outcome.locked_until, outcome.next_run_at, outcome.hint
    )
    text = str(outcome.request_id)
    return _answer(200, text, (before + text + after).encode())


@functools.lru_cache(maxsize=256)
def _skip_around_id(
    function: str, reason: SkipReason, locked_until: datetime | None, next_run_at: datetime | None, hint: str | None
) -> tuple[str, str]:
    outcome = Outcome(function, _NO_ID, skipped=reason, locked_until=locked_until, next_run_at=next_run_at, hint=hint)
    before, _, after = (_encode(outcome.as_json()) + "\n").partition(str(_NO_ID))
    return before, after


def json_answer(
    body: dict[str, Any], request_id: UUID, status: int = 200, headers: dict[str, str] | None = None
) -> Answer:
    text = str(request_id)
    body["request_id"] = text
    answer = _answer(status, text, (_encode(body) + "\n").encode())
    answer.headers.extend((name.lower().encode(), value.encode()) for name, value in (headers or {}).items())
    return answer


def _answer(status: int, request_id: str, content: bytes) -> Answer:
    headers = [
        (b"content-length", b"%d" % len(content)),
        (b"content-type", b"application/json"),
        (b"x-request-id", request_id.encode()),
    ]
    return Answer(status, headers, content)


def log_refusal(scope: Scope, request_id: UUID, refused: Refused) -> None:
    """Logged so that a scheduler with an old token shows up here, too. What the caller sent is not repeated."""
    if refused.http_status not in (404, 405):
        logs.log(
            logging.INFO,
            f"Refused a caller with {refused.http_status}: {refused}",
            action="hit_refused",
            reason=refused.reason,
            path=scope["path"],
            request_id=str(request_id),
        )
