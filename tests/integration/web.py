"""A web server on bare sockets, for answers that no decent server gives, and what a fetch does with them."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpcore2
import pytest

from opening_signals.feeds.model import Source
from opening_signals.http import network
from opening_signals.http.fetch import Page, Validators, client, get

PUBLIC = "93.184.216.34"
NOTHING_KNOWN = Validators()


class Asked(NamedTuple):
    path: str
    headers: dict[str, str]


@dataclass
class Connection:
    """One visitor. `over` is set when the test is."""

    socket: socket.socket
    over: threading.Event

    def send(self, *parts: bytes) -> None:
        self.socket.sendall(b"".join(parts))


Script = Callable[[Connection], None]


def answer(body: bytes = b"", status: int = 200, **headers: str) -> Script:
    """A decent answer; the connection stays open for the next request."""
    return lambda visitor: visitor.send(head(status, **{"Content_Length": str(len(body))} | headers), body)


def head(status: int = 200, **headers: str) -> bytes:
    named = {"Content_Type": "application/json"} | headers
    lines = [f"HTTP/1.1 {status} So", *(f"{name.replace('_', '-')}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def moved(to: str, status: int = 302) -> Script:
    return answer(b"moved", status, Location=to)


def in_turn(*scripts: Script) -> Script:
    """The first script for the first request, and so on; the last one for all that follow."""
    left = list(scripts)
    return lambda visitor: (left.pop(0) if len(left) > 1 else left[0])(visitor)


def hang_up(visitor: Connection) -> None:
    visitor.socket.shutdown(socket.SHUT_RDWR)


class Web:
    """Serves scripts by path and remembers what it was asked. Whoever connects is counted, whatever they say."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.scripts: dict[str, Script] = {}
        self.asked: list[Asked] = []
        self.visitors = 0
        self.context: ssl.SSLContext | None = None
        self._over = threading.Event()
        self._listener = socket.create_server((host, 0))
        self._open: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def close(self) -> None:
        self._over.set()
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                visitor, _ = self._listener.accept()
                self.visitors += 1
                self._open.append(visitor)
                threading.Thread(target=self._serve, args=(visitor,), daemon=True).start()

    def _serve(self, visitor: socket.socket) -> None:
        with visitor, suppress(OSError):
            self._talk(self.context.wrap_socket(visitor, server_side=True) if self.context else visitor)

    def _talk(self, visitor: socket.socket) -> None:
        with visitor, visitor.makefile("rb") as lines:
            while words := lines.readline().split():
                fields = iter(lambda: lines.readline().strip(), b"")
                pairs = (field.decode().partition(": ") for field in fields)
                path = words[1].decode()
                self.asked.append(Asked(path, {name.lower(): value for name, _, value in pairs}))
                self.scripts.get(path, answer(b"no such page", 404))(Connection(visitor, self._over))


def source(url: str = "http://127.0.0.1/", *, allow_private: bool = True) -> Source:
    return Source(name="acme", kind="greenhouse", url=url, allow_private=allow_private)


async def read(
    url: str,
    validators: Validators = NOTHING_KNOWN,
    *,
    allow_private: bool = True,
) -> tuple[Page, bytes]:
    """The page and its body, fetched by a client of its own."""
    where = source(url, allow_private=allow_private)
    async with (
        client() as http,
        aclosing(await get(http, where, url, accept="application/json", validators=validators)) as page,
    ):
        return page, b"".join([chunk async for chunk in page.chunks()])


async def drain(url: str, seconds: float) -> int:
    """How many bytes the body has; none of them is kept."""
    async with (
        asyncio.timeout(seconds),
        client() as http,
        aclosing(await get(http, source(url), url, accept="*/*")) as page,
    ):
        return sum([len(chunk) async for chunk in page.chunks()])


@contextmanager
def growth() -> Iterator[list[int]]:
    """Fills the list with the megabytes by which the process has grown at its largest."""
    grown: list[int] = []
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak()
    yield grown
    grown.append((_peak() - before) // 1024)


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    yield server
    server.close()


class Internet:
    """Names and public addresses as the test says. What is not rerouted is really connected to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: dict[str, list[list[str]]] = {}
        self.routes: dict[str, int] = {}
        self.connected: list[str] = []
        real_resolve, real_connect = network.resolve, httpcore2.AnyIOBackend.connect_tcp

        async def resolve(host: str, port: int) -> list[str]:
            answers = self.names.get(host)
            if answers is None:
                return await real_resolve(host, port)
            return answers.pop(0) if len(answers) > 1 else answers[0]

        async def connect(backend: httpcore2.AnyIOBackend, host: str, port: int, *rest: Any) -> Any:
            self.connected.append(host)
            if host in self.routes:
                host, port = "127.0.0.1", self.routes[host]
            return await real_connect(backend, host, port, *rest)

        monkeypatch.setattr(network, "resolve", resolve)
        monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect)


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Internet:
    return Internet(monkeypatch)
