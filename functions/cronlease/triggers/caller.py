"""Who asked, for the record of what people do to schedules. It lets nobody in."""

import base64
import json
from contextlib import suppress

from cronlease.process.person import actor
from cronlease.settings import Settings
from cronlease.triggers.auth import is_local
from cronlease.triggers.request import Scope

_LONGEST = 200


def caller(settings: Settings, scope: Scope) -> str:
    """The person at this machine, the address in a token that was verified, or how the caller was let in."""
    if settings.auth is None and is_local(scope):
        return actor()
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if settings.auth in ("iam", "oidc"):
        for name in (b"x-goog-iap-jwt-assertion", b"authorization"):
            if name in headers and (email := _email(headers[name])):
                return email[:_LONGEST]
    return settings.auth or "somebody"


def _email(value: bytes) -> str | None:
    """The address in a token whose signature is checked already: by the platform, or by us before this."""
    parts = value.decode("latin-1").rpartition(" ")[2].split(".")
    with suppress(ValueError, AttributeError):
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "==")) if len(parts) == 3 else {}
        email = claims.get("email")
        return email if isinstance(email, str) else None
    return None
