from typing import Any

import pytest

from cronlease.triggers.auth import is_local

LOCAL = {"host": "localhost:8080"}


def scope(client: Any = ("127.0.0.1", 50000), **headers: str) -> dict[str, Any]:
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return {"client": client, "headers": raw}


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
def test_a_person_on_this_machine_is_local(address: str) -> None:
    assert is_local(scope((address, 1), **LOCAL))


@pytest.mark.parametrize("client", [("10.0.0.7", 1), ("::ffff:10.0.0.7", 1), ("fe80::1", 1), ("testclient", 1), None])
def test_another_address_and_one_that_nobody_knows_is_not(client: Any) -> None:
    assert not is_local(scope(client, **LOCAL))


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "a.b.localhost:8080", "127.0.0.1", "127.3.2.1:8080", "[::1]", "[::1]:8080"]
)
def test_a_loopback_host_is_local(host: str) -> None:
    assert is_local(scope(host=host))
    assert is_local(scope(**LOCAL, origin=f"http://{host}"))


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evillocalhost",
        "localhost:80@evil.example",
        "localhost@evil.example",
        "127.0.0.1:8080/evil.example",
        "[::1]evil.example",
        "10.0.0.7:8080",
        "0.0.0.0:8080",
        "127.1",
        "\xb1.localhost.",
    ],
)
def test_any_other_host_is_a_rebound_name(host: str) -> None:
    assert not is_local(scope(host=host))
    assert not is_local(scope(**LOCAL, origin=f"http://{host}"))


def test_a_request_without_a_host_or_with_two_is_not_local() -> None:
    assert not is_local(scope())
    twice = scope(**LOCAL)
    twice["headers"] *= 2
    assert not is_local(twice)


@pytest.mark.parametrize("origin", ["null", "", "https://evil.example", "file://", "chrome-extension://localhost"])
def test_a_web_page_of_somebody_else_is_not_local(origin: str) -> None:
    assert not is_local(scope(**LOCAL, origin=origin))


def test_a_browser_that_says_where_a_request_comes_from_is_believed() -> None:
    assert not is_local(scope(**LOCAL, sec_fetch_site="cross-site"))
    for site in ("none", "same-origin", "same-site"):
        assert is_local(scope(**LOCAL, sec_fetch_site=site))


@pytest.mark.parametrize(
    "name",
    ["x_forwarded_for", "x_forwarded_host", "x_forwarded", "forwarded", "x_real_ip", "via", "cf_connecting_ip"],
)
@pytest.mark.parametrize("value", ["127.0.0.1", "for=127.0.0.1", "localhost", ""])
def test_what_a_proxy_adds_only_ever_restricts(name: str, value: str) -> None:
    for client in (("127.0.0.1", 1), ("10.0.0.7", 1)):
        assert not is_local(scope(client, **LOCAL, **{name: value}))
