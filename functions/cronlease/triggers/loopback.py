"""Whether a request comes from a person on this machine. Pure: looks at an ASGI scope, decides nothing.

The peer's address is not enough. A web page can make a browser on this machine send requests (a cross-site POST), or
read answers under a name of its own that resolves to 127.0.0.1 (DNS rebinding). A proxy or a tunnel on this machine
has a loopback address, too. So the Host must be a loopback name, the Origin must be absent or a loopback one, and a
header that proxies add makes a request foreign. No header makes a foreign request local.
"""

from collections.abc import Mapping
from typing import Any

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


def is_local(scope: Mapping[str, Any]) -> bool:
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
    """Of a Host header, with or without a port."""
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
