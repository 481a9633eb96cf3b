"""Who may call, at a real server: a caller who is not let in costs no connection and learns one sentence (P23)."""

import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.acceptance.conftest import Serve, Served
from tests.integration.conftest import Room

AUDIENCE = "https://tick.example"
CALLER = "scheduler@project.example"
SECRETS = ["first-secret-of-many", "second-secret-of-many"]


@pytest.fixture
def room(dsn: str) -> Room:
    room = Room(dsn)
    room.query("create table effect (request_id uuid)")
    return room


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


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
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


def by_token(serve: Serve, dsn: str, issuer: Issuer, folder: Path) -> Served:
    return serve(dsn, CRONLEASE_AUTH="token", CRONLEASE_TOKEN=", ".join(SECRETS))


def by_oidc(serve: Serve, dsn: str, issuer: Issuer, folder: Path) -> Served:
    return serve(
        dsn,
        CRONLEASE_AUTH="oidc",
        CRONLEASE_OIDC_AUDIENCE=AUDIENCE,
        CRONLEASE_OIDC_EMAILS=f"somebody@else.example,{CALLER}",
        CRONLEASE_OIDC_KEYS_URL=issuer.url,
    )


def ask(served: Served, authorization: str | None, path: str = "/", method: str = "POST") -> httpx2.Response:
    headers = {} if authorization is None else {"Authorization": authorization}
    return served.hit(path, method=method, headers=headers)


def connections(room: Room) -> int:
    return len(room.query("select 1 from pg_stat_activity where application_name = 'cronlease'"))


def bad_bearers(issuer: Issuer) -> dict[str, str | None]:
    """What no caller may get in with, whichever way callers are checked."""
    good = issuer.token()
    head, body, signature = good.split(".")
    other = rsa.generate_private_key(65537, 2048)
    public = issuer.page()
    forged_head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"one"}').rstrip(b"=").decode()
    mac = hmac.new(public, f"{forged_head}.{body}".encode(), hashlib.sha256).digest()
    none_head = base64.urlsafe_b64encode(b'{"alg":"none","kid":"one"}').rstrip(b"=").decode()
    now = int(time.time())
    return {
        "nothing": None,
        "empty": "",
        "no scheme": good,
        "basic": "Basic " + base64.b64encode(b"a:b").decode(),
        "only the scheme": "Bearer",
        "another scheme": "Token " + SECRETS[0],
        "not a token": "Bearer x",
        "two dots": "Bearer ..",
        "four parts": f"Bearer {good}.x",
        "no signature": f"Bearer {head}.{body}.",
        "signature cut": f"Bearer {head}.{body}.{signature[:-8]}",
        "signature of another": f"Bearer {head}.{body}.{issuer.token(sub='x').split('.')[2]}",
        "signature removed": f"Bearer {head}.{body}.SIGNATURE_REMOVED_BY_GOOGLE",
        "alg none": f"Bearer {none_head}.{body}.",
        "public key as secret": f"Bearer {forged_head}.{body}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}",
        "another key": "Bearer " + issuer.token(key=other),
        "unknown key": "Bearer " + issuer.token(key=other, kid="two"),
        "no key id": "Bearer " + issuer.token(kid=None),
        "expired": "Bearer " + issuer.token(iat=now - 900, exp=now - 300),
        "not yet": "Bearer " + issuer.token(nbf=now + 900),
        "from the future": "Bearer " + issuer.token(iat=now + 900),
        "no expiry": "Bearer " + issuer.token(exp=None),
        "another audience": "Bearer " + issuer.token(aud="https://other.example"),
        "no audience": "Bearer " + issuer.token(aud=None),
        "another issuer": "Bearer " + issuer.token(iss="https://issuer.example"),
        "no issuer": "Bearer " + issuer.token(iss=None),
        "an unknown address": "Bearer " + issuer.token(email="stranger@project.example"),
        "an address nobody verified": "Bearer " + issuer.token(email_verified=False),
        "no address": "Bearer " + issuer.token(email=None),
        "a secret cut short": f"Bearer {SECRETS[0][:-1]}",
        "a secret and more": f"Bearer {SECRETS[0]}x",
        "both secrets": f"Bearer {','.join(SECRETS)}",
        "very long": "Bearer " + "a" * 20_000,
        "nested deep": "Bearer " + base64.urlsafe_b64encode(b"[" * 3000).decode() + ".e30.x",
    }


@pytest.mark.parametrize("way", [by_token, by_oidc])
def test_a_caller_who_is_not_let_in_costs_nothing(
    serve: Serve, room: Room, issuer: Issuer, tmp_path: Path, way: Callable[..., Served]
) -> None:
    served = way(serve, room.dsn, issuer, tmp_path)
    asked_before = issuer.asked
    for kind, authorization in bad_bearers(issuer).items():
        for path, method in (("/", "POST"), ("/run-due", "POST"), ("/status", "GET")):
            answer = ask(served, authorization, path, method)
            assert answer.status_code in (401, 403), (kind, path, answer.text)
            assert answer.json()["ok"] is False
    assert connections(room) == 0
    assert room.query("select count(*) from refresh_schedule") == [(0,)]
    assert issuer.asked - asked_before <= 1, "strangers cannot make us ask for keys again and again"
    assert ask(served, None, "/health/live", "GET").status_code == 200
    assert ask(served, None, "/health/ready", "GET").status_code == 200
    # The control: with the right word the same door opens.
    for secret in SECRETS if way is by_token else [issuer.token()]:
        assert ask(served, f"Bearer {secret}").json()["reason"] in (None, "not_due")
    assert connections(room) > 0
    log = served.log_file.read_text()
    assert not any(secret in log for secret in [*SECRETS, issuer.token().split(".")[2]])


def test_the_refusal_says_what_to_do(serve: Serve, room: Room, issuer: Issuer, tmp_path: Path) -> None:
    served = by_oidc(serve, room.dsn, issuer, tmp_path)
    bad = bad_bearers(issuer)
    said = {kind: ask(served, bad[kind]) for kind in bad}
    assert "CRONLEASE_AUTH=iam" in said["signature removed"].json()["error"]
    assert said["nothing"].headers["www-authenticate"] == "Bearer"
    assert "expired" in said["expired"].json()["error"]
    assert "CRONLEASE_OIDC_AUDIENCE" in said["another audience"].json()["error"]
    assert (said["an unknown address"].status_code, said["another key"].status_code) == (403, 401)
    # Google writes its own name both ways.
    assert ask(served, "Bearer " + issuer.token(iss="accounts.google.com")).json()["ok"]


def test_tokens_in_a_file_are_read_again_when_it_changes(serve: Serve, room: Room, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(SECRETS[0] + "\n")
    served = serve(room.dsn, CRONLEASE_AUTH="token", CRONLEASE_TOKEN_FILE=str(file))
    assert ask(served, f"Bearer {SECRETS[0]}").status_code == 200
    assert ask(served, f"Bearer {SECRETS[1]}").status_code == 401
    (tmp_path / "new").write_text(f"{SECRETS[1]}\n")
    (tmp_path / "new").rename(file)
    assert ask(served, f"Bearer {SECRETS[1]}").status_code == 200
    assert ask(served, f"Bearer {SECRETS[0]}").status_code == 401
    file.unlink()
    assert ask(served, f"Bearer {SECRETS[1]}").status_code == 200


def test_nobody_checked_means_no_force_and_no_args_unless_said(serve: Serve, room: Room) -> None:
    served = serve(room.dsn, CRONLEASE_AUTH="none")
    for body in ({"force": True}, {"args": {"sleep": 1}}):
        answer = served.hit(json=body)
        assert (answer.status_code, answer.json()["reason"]) == (403, "forbidden")
        assert "CRONLEASE_ALLOW_FORCE=1" in answer.json()["error"]
    assert connections(room) == 0
    assert served.hit().json()["status"] == "success"
    allowed = serve(room.dsn, CRONLEASE_AUTH="none", CRONLEASE_ALLOW_FORCE="1")
    assert allowed.force()["status"] == "success"


def test_keys_that_cannot_be_had_are_told_to_both_sides(serve: Serve, room: Room, issuer: Issuer) -> None:
    served = serve(
        room.dsn,
        CRONLEASE_AUTH="oidc",
        CRONLEASE_OIDC_AUDIENCE=AUDIENCE,
        CRONLEASE_OIDC_EMAILS=CALLER,
        CRONLEASE_OIDC_KEYS_URL="http://127.0.0.1:1/certs",
    )
    answer = ask(served, "Bearer " + issuer.token())
    assert (answer.status_code, answer.json()["reason"]) == (503, "unavailable")
    (line,) = [line for line in served.log() if line["action"] == "keys_failed"]
    assert (line["severity"], "CRONLEASE_OIDC_KEYS_URL" in line["message"]) == ("ERROR", True)
    assert connections(room) == 0
