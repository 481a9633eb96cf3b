"""P22: no fetch reaches a private address, however it is written, redirected to or resolved."""

import asyncio
import ipaddress
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from opening_signals.errors import FeedError
from opening_signals.http import fetch, network
from opening_signals.http.fetch import client, get
from tests.integration.web import (
    PUBLIC,
    Internet,
    Web,
    answer,
    hang_up,
    internet,
    moved,
    read,
    source,
    web,
)
from tests.require import need

__all__ = ["internet", "web"]

# The canary sits at these; all of them reach it when nothing is refused.
OURS = [
    *("127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7F.1", "0x7f.0.0.1", "017700000001"),
    *("0.0.0.0", "0", "0x0", "localhost", "LocalHost", "someone@127.0.0.1"),
    *("public.example@127.0.0.1", "public.example%2f@127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"),
]
# Some libraries read these as loopback addresses, too.
ODD = [
    "0177.0.0.1",
    "0177.0x0.0.1",
    "00.0.0.0",
    "127.0.0.1.",
    "１２７.0.0.1",
    "127。0。0。1",
    "[::1%25lo]",
    "ⓛocalhost",
]
OTHERS_4 = [
    *("10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255"),
    *("169.254.169.254", "169.254.170.2", "100.100.100.200", "100.64.0.1", "192.0.0.192", "168.63.129.16"),
    *("127.255.255.254", "0.1.2.3", "198.18.0.1", "198.51.100.1", "203.0.113.1", "192.0.2.1", "192.88.99.1"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
]
OTHERS_6 = [
    *("::1", "::", "0:0:0:0:0:0:0:1", "::127.0.0.1", "::ffff:0:127.0.0.1", "fe80::1", "fe80::a9fe:a9fe", "fec0::1"),
    *("fc00::1", "fd00:ec2::254", "fd20:ce::254", "ff02::1", "ff0e::1", "100::1", "2001::1", "2001:db8::1"),
    *("2001:0:7f00:1::", "2002:7f00:1::", "2002:a9fe:a9fe::1", "3fff::1", "5f00::1"),
    *("64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1"),
]
HOSTS = [*OURS, *ODD, *OTHERS_4, *(f"[{address}]" for address in OTHERS_6)]
# That nobody was tried is seen elsewhere; these say that the fetch ended before it could.
REFUSALS = (
    "its host has a private address",
    "its address, or one it redirects to, cannot be used",
    "the name of its host cannot be resolved",
)
WAYS = ["direct", "redirect", "rebinding", "mapped"]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "BACKOFF", (0.0, 0.0))


@pytest.fixture
def canary() -> Iterator[Web]:
    """Sings when anybody comes near."""
    bird = Web()
    bird.scripts["/"] = answer(b"the secret")
    yield bird
    bird.close()


async def asked(urls: list[str], *, allow_private: bool = False) -> list[str]:
    """What each fetch said, or what it got."""
    said = []
    async with client() as http:
        for url in urls:
            try:
                where = source(url, allow_private=allow_private)
                async with asyncio.timeout(5), aclosing(await get(http, where, url, accept="*/*")) as page:
                    said.append(b"".join([chunk async for chunk in page.chunks()]).decode())
            except FeedError as error:
                said.append(str(error))
    return said


def prepare(way: str, hosts: list[str], web: Web, canary: Web, internet: Internet) -> list[str]:
    """The addresses to ask for, such that each would end at that host if nobody refused."""
    internet.names["public.example"] = [[PUBLIC]]
    internet.routes[PUBLIC] = web.port
    urls = [f"http://{host}:{canary.port}/" for host in hosts]
    if way == "redirect":
        web.scripts |= {f"/{number}": moved(url) for number, url in enumerate(urls)}
        return [f"http://public.example/{number}" for number in range(len(urls))]
    if way == "rebinding":
        addresses = [host.strip("[]") for host in hosts if is_address(host.strip("[]"))]
        # The first answer is a good one, and whoever is there hangs up: the next attempt asks the resolver again.
        web.scripts["/"] = hang_up
        names = {f"rebound{number}.example": address for number, address in enumerate(addresses)}
        internet.names |= {name: [[PUBLIC], [address]] for name, address in names.items()}
        return [f"http://{name}:{canary.port}/" for name in names]
    if way == "mapped":
        addresses = [host for host in hosts if is_address(host) and ":" not in host]
        prefixes = ("::ffff:", "64:ff9b::", "::")
        return [f"http://[{prefix}{address}]:{canary.port}/" for address in addresses for prefix in prefixes]
    return urls


def is_address(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def test_the_list_is_long() -> None:
    assert len(set(HOSTS)) >= 60


@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_to_a_private_address(way: str, web: Web, canary: Web, internet: Internet) -> None:
    urls = prepare(way, HOSTS, web, canary, internet)
    for url, said in zip(urls, asyncio.run(asked(urls)), strict=True):
        assert said.startswith(REFUSALS), f"{url}: {said}"
    assert set(internet.connected) <= {PUBLIC}, "nobody else was even tried"
    assert canary.visitors == 0
    assert (way in ("direct", "mapped")) == (not internet.connected)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_leads_to_the_canary_when_nothing_is_refused(
    way: str, web: Web, canary: Web, internet: Internet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: the canary can sing."""
    monkeypatch.setattr(network, "is_public", lambda address: True)
    urls = prepare(way, OURS, web, canary, internet)
    if way == "mapped":  # the other two are routed nowhere here
        urls = [url for url in urls if "::ffff:" in url]
    assert asyncio.run(asked(urls)) == ["the secret"] * len(urls)
    assert canary.visitors


def test_a_source_that_may_reach_private_addresses_does(web: Web, canary: Web, internet: Internet) -> None:
    urls = prepare("direct", OURS, web, canary, internet)
    assert asyncio.run(asked(urls, allow_private=True)) == ["the secret"] * len(urls)
    assert canary.visitors


def test_a_private_host_does_not_lead_to_another(web: Web, canary: Web, internet: Internet) -> None:
    web.scripts |= {"/there": moved(f"http://localhost:{canary.port}/"), "/here": moved(canary.url())}
    said = asyncio.run(asked([web.url("/there"), web.url("/here")], allow_private=True))
    assert "private address" in said[0]
    assert said[1] == "the secret", "the host that the file names"
    assert canary.visitors == 1


def test_of_several_addresses_only_the_public_ones_are_tried(web: Web, canary: Web, internet: Internet) -> None:
    internet.routes[PUBLIC] = web.port
    web.scripts["/"] = answer(b"public")
    internet.names["both.example"] = [["127.0.0.1", "::ffff:127.0.0.1", PUBLIC, "10.0.0.1"]]
    assert asyncio.run(asked([f"http://both.example:{canary.port}/"])) == ["public"]
    assert internet.connected == [PUBLIC]
    assert canary.visitors == 0


def test_the_next_address_is_tried_when_the_first_is_dead(web: Web, canary: Web, internet: Internet) -> None:
    canary.close()
    internet.routes |= {"93.184.216.35": canary.port, PUBLIC: web.port}
    web.scripts["/"] = answer(b"public")
    internet.names["two.example"] = [["93.184.216.35", PUBLIC]]
    assert asyncio.run(asked(["http://two.example/"])) == ["public"]
    assert internet.connected == ["93.184.216.35", PUBLIC]


def test_an_open_connection_is_not_shared_with_a_source_that_may_not_have_it(canary: Web) -> None:
    async def run() -> None:
        async with client() as http:
            for allowed in (True, False):
                where = source(allow_private=allowed)
                async with aclosing(await get(http, where, canary.url(), accept="*/*")) as page:
                    assert [chunk async for chunk in page.chunks()] == [b"the secret"]

    with pytest.raises(FeedError, match="private address"):
        asyncio.run(run())
    assert len(canary.asked) == 1


def test_proxies_of_the_environment_are_not_used(web: Web, canary: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, canary.url())
    web.scripts["/"] = answer(b"direct")
    assert asyncio.run(read(web.url()))[1] == b"direct"
    assert canary.visitors == 0


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A certificate of feeds.example, trusted for this test."""
    openssl = need("openssl")
    made = tmp_path / "feeds.pem"
    name = ["-subj", "/CN=feeds.example", "-addext", "subjectAltName=DNS:feeds.example"]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subprocess.run(
        [openssl, "req", *kind, *name, "-keyout", made, "-out", tmp_path / "certificate.pem"],
        check=True,
        capture_output=True,
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    made.write_text(made.read_text() + (tmp_path / "certificate.pem").read_text())
    network.tls.cache_clear()
    yield made
    network.tls.cache_clear()


def test_tls_checks_the_name_and_not_the_address(web: Web, internet: Internet, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    web.context = context
    web.scripts["/"] = answer(b"over TLS" * 100_000)
    internet.routes[PUBLIC] = web.port
    internet.names |= {"feeds.example": [[PUBLIC]], "other.example": [[PUBLIC]]}
    said = asyncio.run(asked(["https://feeds.example/", "https://other.example/", f"https://{PUBLIC}/"]))
    refusal = "could not connect: its certificate or its TLS is invalid"
    assert said == ["over TLS" * 100_000, refusal, refusal]
    assert names[:2] == ["feeds.example", "other.example"]
    assert web.asked[0].headers["host"] == "feeds.example"
    assert len(web.asked) == 1


def test_a_redirect_from_https_to_http_is_refused(
    web: Web, canary: Web, internet: Internet, certificate: Path
) -> None:
    web.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    web.context.load_cert_chain(certificate)
    web.scripts |= {"/": moved("http://feeds.example/plain"), "/good": moved("https://feeds.example/end")}
    web.scripts["/end"] = answer(b"over TLS")
    internet.routes[PUBLIC] = web.port
    internet.names["feeds.example"] = [[PUBLIC]]
    said = asyncio.run(asked(["https://feeds.example/", "https://feeds.example/good"]))
    refusal = "redirects from https to http, which is refused: name the http address itself if that is meant"
    assert said == [refusal, "over TLS"]
    assert [request.path for request in web.asked] == ["/", "/good", "/end"]
