"""Who may call. Decided before anything else is touched: a caller who is not let in costs no connection.

unset   everybody, as with none; a person on this machine may do everything
none    everybody, but only for what is due: no force, no args, no status, unless CRONLEASE_ALLOW_FORCE is set
iam     whoever the platform lets through: it has verified the caller and taken the signature off the token
token   a shared secret as a bearer token; several are let in, so that one can replace another
oidc    a Google ID token that we verify ourselves, of an address on the list
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from cronlease.job import Hit
from cronlease.observe.redact import hide
from cronlease.readers import tokens
from cronlease.settings import Settings, SettingsError
from cronlease.triggers.request import Refused

_CHALLENGE = {"WWW-Authenticate": "Bearer"}
_LONGEST_TOKEN = 8192
# A server may have replaced the peer's address with what these say: where one is present, the address proves nothing.
_OF_PROXIES = {
    b"forwarded",
    b"via",
    b"x-real-ip",
    b"x-client-ip",
    b"x-cluster-client-ip",
    b"x-original-forwarded-for",
    b"true-client-ip",
    b"cf-connecting-ip",
    b"fastly-client-ip",
}
_FORWARDED = b"x-forwarded"

Headers = list[tuple[bytes, bytes]]
Admit = Callable[[Headers], Awaitable[None]]


def guard(settings: Settings) -> Admit | None:
    """The check that lets a caller in or raises Refused; None if everybody is let in. Raises SettingsError."""
    if settings.auth == "token":
        return Tokens(settings).admit
    if settings.auth == "oidc":
        try:
            from cronlease.triggers.oidc import IdTokens
        except ImportError:
            raise SettingsError("CRONLEASE_AUTH is oidc, which needs PyJWT: pip install 'cronlease[oidc]'") from None
        return IdTokens(settings, bearer, refusal).admit
    return None


async def is_admitted(admit: Admit | None, scope: Mapping[str, Any]) -> bool:
    """Whether the check would let in the caller of an open path."""
    try:
        if admit is not None:
            await admit(scope["headers"])
    except Refused:
        return False
    return True


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
    sentence = f"{what} refused to unchecked callers: "
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


class Tokens:
    """The shared secrets; those in a file are read again when it changes."""

    def __init__(self, settings: Settings) -> None:
        # Imported only where tokens are checked: it takes a hundredth of a cold start.
        from hmac import compare_digest

        self._are_equal = compare_digest
        self._given = [token.encode() for token in settings.token]
        self._file = settings.token_file
        self._seen: Any = None
        self._in_file: list[bytes] = []
        self.known()

    async def admit(self, headers: Headers) -> None:
        self.check(bearer(headers).encode("utf-8", "replace"))

    def check(self, token: bytes) -> None:
        """Raises Refused for one that is not known."""
        # Always compares all of them, so that the time it takes does not reveal which one was nearly right.
        matches = [self._are_equal(token, known) for known in self.known()]
        if not any(matches):
            raise refusal("this token is not known here: check it against CRONLEASE_TOKEN or CRONLEASE_TOKEN_FILE")

    def known(self) -> list[bytes]:
        if self._file is not None:
            self._read(self._file)
        return self._given + self._in_file

    def _read(self, file: Path) -> None:
        try:
            now = file.stat()
            if (now.st_mtime_ns, now.st_ino, now.st_size) != self._seen:
                secrets = tokens(file.read_text())
                hide(*secrets)
                self._in_file = [token.encode() for token in secrets]
                self._seen = (now.st_mtime_ns, now.st_ino, now.st_size)
        except (OSError, ValueError) as error:
            if self._seen is None:
                raise SettingsError(f"CRONLEASE_TOKEN_FILE cannot be used: {error}") from None
            # A file that is just being replaced must not lock everybody out: the last good tokens stay.


def is_local(scope: Mapping[str, Any]) -> bool:
    """Whether a request comes from a person on this machine. The peer's address is not enough: a web page can make a
    browser here send requests (a cross-site POST), or read answers under a name of its own that resolves to 127.0.0.1
    (DNS rebinding), and a proxy or a tunnel has a loopback address, too. So the Host must be a loopback name, the
    Origin absent or a loopback one, and a header that proxies add makes a request foreign. No header makes it
    local."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    names = [name for name, _ in headers]
    if any(name in _OF_PROXIES or name.startswith(_FORWARDED) for name in names):
        return False
    hosts, origins, sites = (_values(headers, name) for name in (b"host", b"origin", b"sec-fetch-site"))
    return (
        _is_loopback_address((scope.get("client") or ("",))[0])
        and len(hosts) == 1
        and _is_loopback_host(hosts[0])
        and all(_is_loopback_origin(origin) for origin in origins)
        and "cross-site" not in sites
    )


def _values(headers: list[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    return [value.decode("latin-1").strip().lower() for name, value in headers if name == wanted]


def _is_loopback_origin(origin: str) -> bool:
    scheme, _, host = origin.partition("://")
    return scheme in ("http", "https") and _is_loopback_host(host)


def _is_loopback_host(host: str) -> bool:
    """Whether a Host header, with or without a port, names this machine."""
    name, _, port = host[1:].partition("]") if host.startswith("[") else host.partition(":")
    port = port.removeprefix(":") if host.startswith("[") else port
    if port and not (port.isascii() and port.isdigit()):
        return False
    return name == "localhost" or name.endswith(".localhost") or _is_loopback_address(name)


def _is_loopback_address(text: str) -> bool:
    from ipaddress import IPv6Address, ip_address

    try:
        address = ip_address(text)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
