"""Who may call. Decided before anything else is touched: a caller who is not let in costs no connection.

unset   everybody, as with none; a person on this machine may do everything
none    everybody, but what is due only: no force, no args, no status, unless CRONLEASE_ALLOW_FORCE says so
iam     whoever the platform lets through: it has verified the caller and taken the signature off the token
token   a shared secret as a bearer token; several are let in, so that one can replace another
oidc    a Google ID token that we verify ourselves, of an address on the list
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from cronlease.job import Hit
from cronlease.observe.redact import hide
from cronlease.readers import tokens
from cronlease.settings import Settings, SettingsError
from cronlease.triggers.loopback import is_local
from cronlease.triggers.request import Refused

_CHALLENGE = {"WWW-Authenticate": "Bearer"}
_LONGEST_TOKEN = 8192

Headers = list[tuple[bytes, bytes]]
Admit = Callable[[Headers], Awaitable[None]]


def guard(settings: Settings) -> Admit | None:
    """What lets a caller in or raises Refused; None where everybody is. Raises SettingsError."""
    if settings.auth == "token":
        return _Tokens(settings).admit
    if settings.auth == "oidc":
        try:
            from cronlease.triggers.oidc import IdTokens
        except ImportError:
            raise SettingsError("CRONLEASE_AUTH is oidc, which needs PyJWT: pip install 'cronlease[oidc]'") from None
        return IdTokens(settings, bearer, refusal).admit
    return None


def is_checked(settings: Settings, scope: Mapping[str, Any]) -> bool:
    """Whether somebody vouches for this caller, who was let in: the platform, a secret, or this machine."""
    return is_local(scope) if settings.auth is None else settings.auth != "none"


def check_hit(settings: Settings, scope: Mapping[str, Any], hit: Hit) -> None:
    """Raises Refused when an unchecked caller asks for more than what is due."""
    if hit.force or hit.args:
        _check_more(settings, scope, "force and args are")


def check_status(settings: Settings, scope: Mapping[str, Any]) -> None:
    """Raises Refused when an unchecked caller asks for the status."""
    _check_more(settings, scope, "the status is")


def _check_more(settings: Settings, scope: Mapping[str, Any], what: str) -> None:
    if is_checked(settings, scope) or (settings.auth == "none" and settings.allow_force):
        return
    sentence = f"{what} not for callers nobody has checked: "
    if settings.auth is None:
        sentence += "call http://localhost on this machine directly, not through a proxy or a web page, or set"
        sentence += " CRONLEASE_AUTH=token"
    else:
        sentence += "set CRONLEASE_AUTH to token, oidc or iam, or CRONLEASE_ALLOW_FORCE=1"
    raise Refused(403, "forbidden", sentence)


def bearer(headers: Headers) -> str:
    """The token that came with the request. Raises Refused."""
    given = [value for name, value in headers if name == b"authorization"]
    if not given:
        raise refusal("send the header Authorization: Bearer <token>")
    scheme, _, token = given[0].decode("latin-1").partition(" ")
    token = token.strip()
    if len(given) > 1 or scheme.lower() != "bearer" or not 0 < len(token) <= _LONGEST_TOKEN:
        raise refusal("the Authorization header is not one bearer token: send Authorization: Bearer <token>")
    return token


def refusal(sentence: str, http_status: int = 401) -> Refused:
    reason = "unauthorized" if http_status == 401 else "forbidden" if http_status == 403 else "unavailable"
    refused = Refused(http_status, reason, sentence)
    if http_status == 401:
        refused.headers = dict(_CHALLENGE)
    return refused


class _Tokens:
    """The shared secrets; those in a file are read again when it changes."""

    def __init__(self, settings: Settings) -> None:
        self._given = [token.encode() for token in settings.token]
        self._file = settings.token_file
        self._seen: Any = None
        self._in_file: list[bytes] = []
        self._known()

    async def admit(self, headers: Headers) -> None:
        token = bearer(headers).encode("utf-8", "replace")
        # All of them, always: how long it takes says nothing of which one was nearly right.
        matches = [hmac.compare_digest(token, known) for known in self._known()]
        if not any(matches):
            raise refusal("this token is not known here: check it against CRONLEASE_TOKEN or CRONLEASE_TOKEN_FILE")

    def _known(self) -> list[bytes]:
        if self._file is not None:
            self._read(self._file)
        return self._given + self._in_file

    def _read(self, file: Path) -> None:
        try:
            now = file.stat()
            if (now.st_mtime_ns, now.st_ino, now.st_size) != self._seen:
                found = tokens(file.read_text())
                hide(*found)
                self._in_file = [token.encode() for token in found]
                self._seen = (now.st_mtime_ns, now.st_ino, now.st_size)
        except (OSError, ValueError) as error:
            if self._seen is None:
                raise SettingsError(f"CRONLEASE_TOKEN_FILE cannot be used: {error}") from None
            # A file that is just being replaced must not lock everybody out: the last good tokens stay.
