"""Which addresses a source may be at."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opening_signals.http.network import is_public

PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.32.0.1", "192.167.255.255"]
PUBLIC_6 = ["2606:4700:4700::1111", "2a00:1450:4001:800::200e", "2001:4860:4860::8888", "2400:cb00::1"]


@pytest.mark.parametrize("address", PUBLIC + PUBLIC_6)
def test_a_public_address_may_be_reached(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("prefix", ["::ffff:", "64:ff9b::", "::", "::ffff:0:"])
@pytest.mark.parametrize("address", PUBLIC)
def test_an_ipv4_address_inside_an_ipv6_address_may_not(prefix: str, address: str) -> None:
    assert not is_public(prefix + address)


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "fe80::1%lo", "2606:4700::1%lo/../", "1.1.1.1 "])
def test_what_is_not_an_address_may_not_be_reached(text: str) -> None:
    assert not is_public(text)


@given(st.ip_addresses())
def test_what_python_calls_private_may_never_be_reached(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    not_public = (address.is_private or address.is_loopback or address.is_link_local or address.is_multicast) or (
        address.is_reserved or address.is_unspecified
    )
    assert not (not_public and is_public(str(address)))


@given(st.ip_addresses(v=6))
def test_ipv6_is_public_only_as_global_unicast(address: ipaddress.IPv6Address) -> None:
    assert not is_public(str(address)) or address in ipaddress.ip_network("2000::/3")
