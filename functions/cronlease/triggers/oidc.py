"""ID tokens that we verify ourselves: issuer, audience, signature, expiry, and an address on the list.

The issuer's keys are kept for an hour. A token with an unknown key makes us ask again, but at most once a minute, or
every five seconds while we have no keys: a stranger cannot make us ask more often.
"""

import asyncio
import http.client
import json
import logging
import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jwt

from cronlease.observe.logs import log
from cronlease.settings import Settings

_KEEP_KEYS_SECONDS = 3600.0
_ASK_AGAIN_SECONDS = 60.0
_WITHOUT_KEYS_SECONDS = 5.0
# The limits of one request as a whole, and of one step of it.
_ANSWER_SECONDS = 5.0
_STEP_SECONDS = 2.0
_MOST_KEY_BYTES = 1024 * 1024
_ALGORITHMS = ("RS256", "ES256")
_REMOVED = "SIGNATURE_REMOVED_BY_GOOGLE"


class Keys:
    """The issuer's public keys by their ID."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._keys: dict[str, jwt.PyJWK] = {}
        self._asked_at: float | None = None
        self._trouble: str | None = None
        self._lock = asyncio.Lock()

    async def get(self, key_id: str) -> jwt.PyJWK | None:
        """Raises OSError if no keys could be fetched at all."""
        if key_id not in self._keys or self._age() > _KEEP_KEYS_SECONDS:
            async with self._lock:
                if self._age() > self._patience(key_id):
                    await self._ask()
            if not self._keys and self._trouble is not None:
                raise OSError(self._trouble)
        return self._keys.get(key_id)

    def _patience(self, key_id: str) -> float:
        if not self._keys:
            return _WITHOUT_KEYS_SECONDS
        return _KEEP_KEYS_SECONDS if key_id in self._keys else _ASK_AGAIN_SECONDS

    def _age(self) -> float:
        return float("inf") if self._asked_at is None else time.monotonic() - self._asked_at

    async def _ask(self) -> None:
        self._trouble = None
        asking = _Asking(self._url)
        try:
            asking.start()
            async with asyncio.timeout(_ANSWER_SECONDS):
                self._keys = await asking.keys
        except Exception as error:
            self._trouble = str(error) or f"no answer within {_ANSWER_SECONDS:g} s"
            sentence = f"The issuer's keys could not be fetched from {self._url}: {self._trouble}"
            log(logging.ERROR, f"{sentence}; check CRONLEASE_OIDC_KEYS_URL", action="keys_failed")
        finally:
            asking.give_up()
        self._asked_at = time.monotonic()


class _Asking(threading.Thread):
    """Asks the issuer once, on a thread of its own: one that drips its answer byte by byte uses up no shared thread,
    and closing the socket ends it. A daemon, because nothing ends a thread that waits for a host name."""

    def __init__(self, url: str) -> None:
        super().__init__(name="issuer's keys", daemon=True)
        self._url = url
        self._loop = asyncio.get_running_loop()
        self.keys: asyncio.Future[dict[str, jwt.PyJWK]] = self._loop.create_future()
        self._socket: socket.socket | None = None
        self._given_up = False

    def run(self) -> None:
        try:
            keys = self._fetch()
        except Exception as error:
            self._settle(self.keys.set_exception, error)
        else:
            self._settle(self.keys.set_result, keys)
        finally:
            if self._socket is not None:
                self._socket.close()

    def give_up(self) -> None:
        """Ends the connection under the thread; afterwards, or when it has ended, does nothing."""
        self._given_up = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _settle(self, set_keys: Callable[[Any], None], result: Any) -> None:
        def settle() -> None:
            if not self.keys.done():
                set_keys(result)

        # If the loop is closed, nobody waits any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(settle)

    def _fetch(self) -> dict[str, jwt.PyJWK]:
        opener = urllib.request.build_opener(*_handlers(self._connected))
        with opener.open(self._url, timeout=_STEP_SECONDS) as answer:
            keys = jwt.PyJWKSet.from_dict(json.loads(answer.read(_MOST_KEY_BYTES))).keys
        return {key.key_id: key for key in keys if key.key_id}

    def _connected(self, connection: socket.socket) -> None:
        # Our own handle: TLS takes over the connection's.
        before, self._socket = self._socket, connection.dup()
        if before is not None:
            before.close()
        if self._given_up:
            raise TimeoutError


def _handlers(connected: Callable[[socket.socket], None]) -> tuple[urllib.request.BaseHandler, ...]:
    """urllib's own, except that they call `connected` with each connection before anything is read from it."""

    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            connected(self.sock)

    class Secure(http.client.HTTPSConnection, Plain):
        """Its connect calls that of Plain, and begins TLS afterwards."""

    class PlainHandler(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Plain, req)

    class SecureHandler(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Secure, req)

    return PlainHandler(), SecureHandler()


class IdTokens:
    """Lets callers in by their ID token."""

    def __init__(self, settings: Settings, bearer: Callable[[Any], str], refusal: Callable[..., Exception]) -> None:
        self._audience = settings.oidc_audience
        self._emails = {email.lower() for email in settings.oidc_emails}
        issuer = settings.oidc_issuer
        # Google writes its issuer both ways.
        self._issuers = [issuer, issuer.removeprefix("https://")]
        self._keys = Keys(settings.oidc_keys_url)
        self._bearer = bearer
        self._refusal = refusal

    async def admit(self, headers: list[tuple[bytes, bytes]]) -> None:
        token = self._bearer(headers)
        if token.endswith("." + _REMOVED):
            raise self._refusal(
                "the platform has verified this token and taken its signature off: set CRONLEASE_AUTH=iam"
            )
        claims = self._claims(token, await self._key(token))
        email = str(claims.get("email", "")).lower()
        if not email or claims.get("email_verified") is not True:
            raise self._refusal("the token has no verified e-mail address: ask for one with the format full", 403)
        if email not in self._emails:
            raise self._refusal("this caller is not on the list CRONLEASE_OIDC_EMAILS", 403)

    async def _key(self, token: str) -> jwt.PyJWK:
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise self._refusal("the bearer token is not an ID token") from None
        key_id = header.get("kid")
        if header.get("alg") not in _ALGORITHMS or not isinstance(key_id, str):
            raise self._refusal(f"the token is not signed by a known key with one of {', '.join(_ALGORITHMS)}")
        try:
            key = await self._keys.get(key_id)
        except OSError:
            raise self._refusal("the issuer's keys cannot be fetched right now: try again", 503) from None
        if key is None:
            raise self._refusal("the token is signed with a key that its issuer does not have")
        return key

    def _claims(self, token: str, key: jwt.PyJWK) -> dict[str, Any]:
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(_ALGORITHMS),
                audience=self._audience,
                issuer=self._issuers,
                leeway=10,
                options={"require": ["exp", "iat", "aud", "iss"]},
            )
        except jwt.ExpiredSignatureError:
            raise self._refusal("the token has expired: send a new one") from None
        except jwt.InvalidAudienceError:
            raise self._refusal("the token's audience is not CRONLEASE_OIDC_AUDIENCE") from None
        except jwt.InvalidIssuerError:
            raise self._refusal("the token's issuer is not CRONLEASE_OIDC_ISSUER") from None
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise self._refusal("the token cannot be verified: its signature or its claims are wrong") from None
        return claims
