"""How a browser proves that somebody signed in, and that a form is one of ours.

The sign-in cookie holds an expiry and its HMAC, keyed by the token that was given: a token that is taken away takes
its cookies with it. The cookie of the forms holds a random text that each form repeats.
"""

import hmac
import secrets
import time
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from cronlease.triggers.auth import Tokens
from cronlease.triggers.request import Refused, Scope

SIGNED_IN = "cronlease_signed_in"
FORMS = "cronlease_forms"
_SIGNED_IN_SECONDS = 12 * 3600


def sign_in(tokens: Tokens, given: str) -> str:
    """The value of the cookie. Raises Refused for a token that is not known."""
    key = given.strip().encode("utf-8", "replace")
    tokens.check(key)
    expiry = str(int(time.time()) + _SIGNED_IN_SECONDS)
    return f"{expiry}.{_seal(key, expiry)}"


def is_signed_in(tokens: Tokens, scope: Scope) -> bool:
    expiry, _, seal = cookies(scope).get(SIGNED_IN, "").partition(".")
    if not (expiry.isascii() and expiry.isdigit() and len(expiry) < 12 and int(expiry) > time.time()):
        return False
    # Always compares all of them, so that the time it takes does not reveal which one was nearly right.
    matches = [hmac.compare_digest(seal.encode(), _seal(key, expiry).encode()) for key in tokens.known()]
    return any(matches)


def _seal(key: bytes, expiry: str) -> str:
    return hmac.new(key, f"cronlease sign-in until {expiry}".encode(), "sha256").hexdigest()


def forms_text(scope: Scope) -> str:
    """What the forms of this browser repeat: the text it has, or a new one."""
    known = cookies(scope).get(FORMS, "")
    return known if len(known) == 43 and known.isascii() else secrets.token_urlsafe(32)


def check_form(scope: Scope, given: str) -> None:
    """Raises Refused for a form that is not one of ours."""
    known = cookies(scope).get(FORMS, "")
    if not (known and hmac.compare_digest(known.encode(), given.encode("utf-8", "replace"))):
        raise Refused(403, "forbidden", "this form is too old, or not from this page: open the page again")


def check_origin(scope: Scope) -> None:
    """Raises Refused if another site, or another port of this machine, sent the form. A proxy may replace the Host
    and not the Origin, so what the browser itself says of the two comes first."""
    values = {name: value.decode("latin-1").lower() for name, value in scope["headers"]}
    site, origin = values.get(b"sec-fetch-site"), values.get(b"origin", "")
    is_ours = site == "same-origin" if site is not None else urlsplit(origin).netloc == values.get(b"host", "")
    if not is_ours or not (site or origin):
        raise Refused(403, "forbidden", "this form was not sent by this page: open the page, and send it from there")


def cookies(scope: Scope) -> dict[str, str]:
    jar: SimpleCookie = SimpleCookie()
    for name, value in scope["headers"]:
        if name == b"cookie":
            try:
                jar.load(value.decode("latin-1"))
            except CookieError:
                continue
    return {name: morsel.value for name, morsel in jar.items()}


def set_cookie(scope: Scope, root: str, name: str, value: str, seconds: int | None = None) -> tuple[bytes, bytes]:
    """Sent only to this path, only by our own pages, and unseen by any script. Without a value it is removed."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    parts = [f"{name}={value}", f"Path={root or '/'}", "HttpOnly", "SameSite=Strict"]
    if not value:
        seconds = 0
    if seconds is not None:
        parts.append(f"Max-Age={seconds}")
    if b"https" in (scope.get("scheme", "").encode(), headers.get(b"x-forwarded-proto")):
        parts.append("Secure")
    return b"set-cookie", "; ".join(parts).encode("latin-1")


def sign_in_cookie(scope: Scope, root: str, value: str) -> tuple[bytes, bytes]:
    return set_cookie(scope, root, SIGNED_IN, value, _SIGNED_IN_SECONDS)
