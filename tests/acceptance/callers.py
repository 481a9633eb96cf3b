"""Who calls in the tests: an issuer on loopback, the ways to check callers, and what none of them may let in."""

import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.acceptance.conftest import Serve, Served

AUDIENCE = "https://tick.example"
CALLER = "scheduler@project.example"
SECRETS = ["first-secret-of-many", "second-secret-of-many"]
_OTHER_KEY = rsa.generate_private_key(65537, 2048)


@dataclass
class Issuer:
    """A real issuer on loopback: one key pair, and a page with the public half."""

    url: str = ""
    asked: int = 0
    key: Any = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))

    def page(self) -> bytes:
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return json.dumps({"keys": [{**public, "kid": "one", "alg": "RS256", "use": "sig"}]}).encode()

    def token(self, *, key: Any = None, kid: str | None = "one", algorithm: str = "RS256", **claims: Any) -> str:
        now = int(time.time())
        given = {
            "iss": "https://accounts.google.com",
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + 600,
            "email": CALLER,
            "email_verified": True,
            **claims,
        }
        payload = {name: value for name, value in given.items() if value is not None}
        headers = {} if kid is None else {"kid": kid}
        return jwt.encode(payload, key or self.key, algorithm=algorithm, headers=headers)


@contextmanager
def issuing() -> Iterator[Issuer]:
    issuer = Issuer()

    class Keys(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked += 1
            self.send_response(200)
            self.end_headers()
            self.wfile.write(issuer.page())

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keys)
    issuer.url = f"http://127.0.0.1:{server.server_port}/certs"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield issuer
    server.shutdown()
    thread.join()
    server.server_close()


def by_token(serve: Serve, dsn: str, issuer: Issuer, **more: Any) -> Served:
    return serve(dsn, CRONLEASE_AUTH="token", CRONLEASE_TOKEN=", ".join(SECRETS), **more)


def by_oidc(serve: Serve, dsn: str, issuer: Issuer, **more: Any) -> Served:
    return serve(
        dsn,
        CRONLEASE_AUTH="oidc",
        CRONLEASE_OIDC_AUDIENCE=AUDIENCE,
        CRONLEASE_OIDC_EMAILS=f"somebody@else.example,{CALLER}",
        CRONLEASE_OIDC_KEYS_URL=issuer.url,
        **more,
    )


def bad_bearers(issuer: Issuer) -> dict[str, str | None]:
    """What no caller may get in with, whichever way callers are checked; fresh, so that only one thing is wrong."""
    tokens = {**_near_secrets(), **_forged(issuer), **_signed(issuer)}
    return {**_no_bearers(issuer), **{kind: f"Bearer {token}" for kind, token in tokens.items()}}


def _no_bearers(issuer: Issuer) -> dict[str, str | None]:
    return {
        "nothing": None,
        "empty": "",
        "no scheme": issuer.token(),
        "basic": "Basic " + _encoded(b"a:b"),
        "only the scheme": "Bearer",
        "another scheme": "Token " + SECRETS[0],
    }


def _near_secrets() -> dict[str, str]:
    return {
        "not a token": "x",
        "two dots": "..",
        "not ASCII": "\xe4\xff",
        "a secret cut short": SECRETS[0][:-1],
        "a secret and more": SECRETS[0] + "x",
        "both secrets": ",".join(SECRETS),
        "very long": "a" * 20_000,
        "nested deep": _encoded(b"[" * 3000) + ".e30.x",
    }


def _forged(issuer: Issuer) -> dict[str, str]:
    """What somebody makes who has seen tokens and knows the public key."""
    good = issuer.token()
    head, body, signature = good.split(".")
    symmetric = _encoded(b'{"alg":"HS256","kid":"one"}')
    mac = hmac.new(issuer.page(), f"{symmetric}.{body}".encode(), hashlib.sha256).digest()
    return {
        "four parts": f"{good}.x",
        "no signature": f"{head}.{body}.",
        "signature cut": f"{head}.{body}.{signature[:-8]}",
        "signature of another": f"{head}.{body}.{issuer.token(sub='x').split('.')[2]}",
        "signature removed": f"{head}.{body}.SIGNATURE_REMOVED_BY_GOOGLE",
        "alg none": _encoded(b'{"alg":"none","kid":"one"}') + f".{body}.",
        "public key as secret": f"{symmetric}.{body}.{_encoded(mac)}",
        "key id of another kind": _encoded(b'{"alg":"RS256","kid":["one"]}') + f".{body}.{signature}",
        "another key": issuer.token(key=_OTHER_KEY),
        "unknown key": issuer.token(key=_OTHER_KEY, kid="two"),
        "no key id": issuer.token(kid=None),
    }


def _signed(issuer: Issuer) -> dict[str, str]:
    """Tokens of the issuer itself, for somebody else or for another time."""
    now = int(time.time())
    return {
        "expired": issuer.token(iat=now - 900, exp=now - 300),
        "not yet": issuer.token(nbf=now + 900),
        "from the future": issuer.token(iat=now + 900),
        "no expiry": issuer.token(exp=None),
        "no end": issuer.token(exp=float("inf")),
        "another audience": issuer.token(aud="https://other.example"),
        "no audience": issuer.token(aud=None),
        "another issuer": issuer.token(iss="https://issuer.example"),
        "no issuer": issuer.token(iss=None),
        "an unknown address": issuer.token(email="stranger@project.example"),
        "an address nobody verified": issuer.token(email_verified=False),
        "no address": issuer.token(email=None),
        "a list of addresses": issuer.token(email=[CALLER]),
    }


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
