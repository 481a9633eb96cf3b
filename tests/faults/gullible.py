"""A function that takes anything for a token and believes what it says. For the negative control of P23."""

from typing import Any

import jwt

from cronlease import Run, scheduled
from cronlease.triggers import oidc


async def any_key(_: oidc.IdTokens, token: str) -> jwt.PyJWK | None:
    jwt.get_unverified_header(token)
    return None


def any_claims(_: oidc.IdTokens, token: str, __: jwt.PyJWK | None) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return claims


oidc.IdTokens._key = any_key  # type: ignore[method-assign, assignment]
oidc.IdTokens._claims = any_claims  # type: ignore[method-assign, assignment]


@scheduled
async def tick(run: Run) -> None: ...
