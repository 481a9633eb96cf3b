"""Names that nobody answers for, and hosts that stop in the middle, cost only the time of their own source."""

import asyncio
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from opening_signals.check import check
from opening_signals.feeds.model import Source
from opening_signals.http import lookup
from opening_signals.http.lookup import resolve
from tests.integration.conftest import wait_until
from tests.integration.web import Connection, Script, Web, answer, head, web

__all__ = ["web"]

BOARD = b'{"jobs": [{"id": 1, "title": "Baker"}]}'
real_getaddrinfo = socket.getaddrinfo


class Resolver:
    """The system's, except that it is deaf for names that begin so, until it is let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go = threading.Event()

    def getaddrinfo(self, host: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        self.asked.append(name)
        if name.startswith("deaf"):
            self.go.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "nobody answers")
        return real_getaddrinfo(host, *rest, **more)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    deaf = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", deaf.getaddrinfo)
    yield deaf
    deaf.go.set()
    wait_until(lambda: not lookup._pending)


def source(name: str, url: str) -> Source:
    return Source(name=name, kind="greenhouse", url=url, allow_private=True)


@pytest.mark.thorough
def test_deaf_names_do_not_delay_the_others(web: Web, resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONLEASE_SOURCES_AT_ONCE", "64")
    web.scripts["/"] = answer(BOARD)
    deaf = [source(f"deaf-{number}", f"http://deaf-{number}.example/") for number in range(40)]
    healthy = source("healthy", f"http://localhost:{web.port}/")

    async def run() -> tuple[float, float, list[str | None]]:
        began = time.monotonic()
        checking = asyncio.create_task(check([*deaf, healthy], seconds=1.5))
        while sum(name.startswith("deaf") for name in resolver.asked) < len(deaf):
            await asyncio.sleep(0.01)
        asked = time.monotonic()
        await asyncio.to_thread(lambda: None)
        shared = time.monotonic() - asked
        found = await checking
        assert found[-1].openings == 1
        assert time.monotonic() - began < 2.5
        return found[-1].seconds, shared, [each.error for each in found]

    seconds, shared, errors = asyncio.run(run())
    assert errors.pop() is None
    assert all(error and re.fullmatch(r"was not done after 1\.\d+ s", error) for error in errors)
    assert len(errors) == 40
    assert seconds < 1
    assert shared < 0.5


def test_a_name_is_looked_up_once_at_a_time_and_their_number_is_bounded(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "MOST", 3)

    async def ask(name: str) -> str:
        try:
            async with asyncio.timeout(0.2):
                return " ".join(await resolve(name, 80))
        except TimeoutError:
            return "no answer in time"
        except OSError as error:
            return str(error.strerror)

    async def run() -> list[str]:
        first = await asyncio.gather(*(ask(f"deaf-{number}") for number in (1, 1, 2, 3)))
        refused = await ask("127.0.0.1")
        resolver.go.set()
        while lookup._pending:
            await asyncio.sleep(0.01)
        return [*first, refused, await ask("127.0.0.1"), await ask("deaf-1")]

    assert asyncio.run(run()) == [
        *["no answer in time"] * 4,
        "too many lookups are under way",
        "127.0.0.1",
        "nobody answers",
    ]
    assert resolver.asked == ["deaf-1", "deaf-2", "deaf-3", "127.0.0.1", "deaf-1"]


def _drip(first: bytes, part: bytes) -> Script:
    def script(visitor: Connection) -> None:
        visitor.send(first)
        while not visitor.over.wait(0.05):
            visitor.send(part)

    return script


STOPPING: dict[str, Script] = {
    "before the headers": _drip(b"", b""),
    "in the headers": _drip(b"HTTP/1.1 200 OK\r\n", b"X"),
    "in the body": _drip(head(Content_Length="100000"), b" "),
}


async def gone_after(url: str, has_gone: threading.Event) -> float:
    """How long after the deadline of its source the host sees that nobody listens, while the loop goes on."""
    (found,) = await check([source("acme", url)], seconds=0.5)
    assert found.error == "was not done after 0.5 s"
    ended = time.monotonic()
    while not has_gone.is_set():
        assert time.monotonic() - ended < 5, "the socket is still open"
        await asyncio.sleep(0.01)
    return time.monotonic() - ended


@pytest.mark.parametrize("where", STOPPING)
def test_the_socket_of_a_host_that_stops_is_closed_at_the_deadline(web: Web, where: str) -> None:
    gone = threading.Event()

    def script(visitor: Connection) -> None:
        threading.Thread(target=_wait_for_the_end, args=(visitor.socket, gone), daemon=True).start()
        STOPPING[where](visitor)

    web.scripts["/"] = script
    assert asyncio.run(gone_after(web.url(), gone)) < 1


def test_the_socket_of_a_handshake_that_hangs_is_closed_at_the_deadline() -> None:
    gone = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            visitor, _ = listener.accept()
            with visitor:
                visitor.recv(1)
                _wait_for_the_end(visitor, gone)

        threading.Thread(target=accept, daemon=True).start()
        assert asyncio.run(gone_after(f"https://127.0.0.1:{listener.getsockname()[1]}/", gone)) < 1


def _wait_for_the_end(visitor: socket.socket, gone: threading.Event) -> None:
    try:
        while visitor.recv(65536):
            pass
    except OSError:
        pass
    gone.set()
