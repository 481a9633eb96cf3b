"""Signs ID tokens as Google does for Cloud Scheduler, with its own key, and serves the public key on loopback."""

import json
import time

from cronlease.emulator.function import EmulatorError
from cronlease.emulator.loopback import Answer, LoopbackServer

_CALLER = "scheduler@emulator.example"
_KEY_ID = "emulator"


class Issuer(LoopbackServer):
    """Serves its keys at every path."""

    def __init__(self, audience: str) -> None:
        try:
            import jwt
            from cryptography.hazmat.primitives.asymmetric import rsa
        except ImportError:
            raise EmulatorError("--oidc needs PyJWT: pip install 'cronlease[oidc]'") from None
        super().__init__()
        self._encode = jwt.encode
        self._key = rsa.generate_private_key(65537, 2048)
        self._audience = audience
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self._keys = json.dumps({"keys": [{**public, "kid": _KEY_ID, "alg": "RS256", "use": "sig"}]}).encode()

    def answer(self, _target: str, _etag: str | None) -> Answer:
        return Answer(200, "application/json", self._keys)

    def environment(self) -> dict[str, str]:
        """Settings that make the function accept tokens of this issuer only."""
        return {
            "CRONLEASE_AUTH": "oidc",
            "CRONLEASE_OIDC_AUDIENCE": self._audience,
            "CRONLEASE_OIDC_EMAILS": _CALLER,
            "CRONLEASE_OIDC_ISSUER": self.url,
            "CRONLEASE_OIDC_KEYS_URL": f"{self.url}/certs",
        }

    def token(self, seconds: int = 3600) -> str:
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
