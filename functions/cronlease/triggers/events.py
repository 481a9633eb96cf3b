"""Events that somebody else publishes: Pub/Sub's push, wrapped or not, and CloudEvents, binary or structured.

The JSON object that was published becomes the run's args. No SDK: the envelopes are small and documented.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from cronlease import arguments
from cronlease.job import Hit

_PUBSUB = "x-goog-pubsub-"


def read_event(headers: Mapping[str, str], body: bytes) -> Hit:
    """The hit of a request that is an event, by its headers or its body. Raises ValueError, one sentence."""
    if "ce-specversion" in headers:
        attributes = {name.removeprefix("ce-"): value for name, value in headers.items() if name.startswith("ce-")}
        return _cloud_event(attributes, _json(body))
    if message_id := headers.get(_PUBSUB + "message-id"):
        return _message(message_id, headers.get(_PUBSUB + "subscription-name"), _json(body))
    given = _json(body)
    if "specversion" in given:
        data = given.get("data")
        if data is None and isinstance(given.get("data_base64"), str):
            data = _published(given["data_base64"])
        return _cloud_event(given, data)
    return _push(given)


def _cloud_event(attributes: Mapping[str, Any], data: Any) -> Hit:
    if isinstance(data, dict) and isinstance(data.get("message"), dict):
        # Eventarc wraps what Pub/Sub pushes.
        return _push(data)
    source, event_id = attributes.get("source"), attributes.get("id")
    if not (isinstance(source, str) and isinstance(event_id, str) and source and event_id):
        raise ValueError("a CloudEvent has a source and an id, both texts")
    return Hit("cloud_event", job_name=source, args=_args(data), delivery=f"{source} {event_id}")


def _push(envelope: dict[str, Any]) -> Hit:
    message = envelope["message"]
    if not isinstance(message, dict):
        raise ValueError("message must be an object, as Pub/Sub pushes it")
    message_id = message.get("messageId", message.get("message_id"))
    if not isinstance(message_id, str) or not message_id:
        raise ValueError("message.messageId must be a text")
    data = message.get("data")
    if not isinstance(data, str | None):
        raise ValueError("message.data must be a text, in base64")
    return _message(message_id, envelope.get("subscription"), _published(data) if data else None)


def _message(message_id: str, subscription: Any, data: Any) -> Hit:
    job_name = subscription if isinstance(subscription, str) else None
    return Hit("pubsub", job_name=job_name, args=_args(data), delivery=message_id)


def _published(text: str) -> Any:
    try:
        return _json(base64.b64decode(text, validate=True))
    except binascii.Error:
        raise ValueError("the data is not base64") from None


def _json(raw: bytes) -> Any:
    if not raw.strip():
        return {}
    try:
        return arguments.decode(raw)
    except UnicodeError:
        raise ValueError("the data is not UTF-8") from None
    except ValueError as error:
        # Without the decoder's position, which would be in a text that the caller never sees.
        raise ValueError(
            f"the data is not JSON ({getattr(error, 'msg', error)}): publish an object, or {{}}"
        ) from None


def _args(data: Any) -> dict[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ValueError("the data must be a JSON object, which becomes the run's args: publish {} for none")
    return data
