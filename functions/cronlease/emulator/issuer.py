"""Signs ID tokens as Google does for Cloud Scheduler, with a key of its own; serves the public half on loopback."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from cronlease.emulator.function import EmulatorError

_CALLER = "scheduler@emulator.example"
_KEY_ID = "emulator"
_HIT_SECONDS = 3600
_DAY_SECONDS = 86400


class Issuer:
    """Serves its keys once started, until the block ends."""

    def __init__(self, audience: str) -> None:
        try:
            import jwt
            from cryptography.hazmat.primitives.asymmetric import rsa
        except ImportError:
            raise EmulatorError("--oidc needs PyJWT: pip install 'cronlease[oidc]'") from None
        self._encode = jwt.encode
        self._key = rsa.generate_private_key(65537, 2048)
        self._audience = audience
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        page = json.dumps({"keys": [{**public, "kid": _KEY_ID, "alg": "RS256", "use": "sig"}]}).encode()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(page))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def environment(self) -> dict[str, str]:
        """What makes the function believe us, and only us."""
        return {
            "CRONLEASE_AUTH": "oidc",
            "CRONLEASE_OIDC_AUDIENCE": self._audience,
            "CRONLEASE_OIDC_EMAILS": _CALLER,
            "CRONLEASE_OIDC_ISSUER": self.url,
            "CRONLEASE_OIDC_KEYS_URL": f"{self.url}/certs",
        }

    def token(self, seconds: int = _HIT_SECONDS) -> str:
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": self._audience,
            "sub": _KEY_ID,
            "email": _CALLER,
            "email_verified": True,
            "iat": now,
            "exp": now + seconds,
        }
        return self._encode(claims, self._key, algorithm="RS256", headers={"kid": _KEY_ID})

    def token_for_a_day(self) -> str:
        """For a person with curl."""
        return self.token(_DAY_SECONDS)

    def start(self) -> None:
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _handler(page: bytes) -> type[BaseHTTPRequestHandler]:
    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            """Says nothing: the terminal belongs to the hits."""

    return Keys
