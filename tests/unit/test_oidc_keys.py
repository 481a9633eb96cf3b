"""The keys of an issuer that does not answer as it should: nobody waits long, and it is not asked again and again."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from cronlease.triggers import oidc

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ANSWER = HEAD + b"\r\n"


class Stuck:
    """Takes every connection; something is said on each, and then a word again and again, or none."""

    def __init__(self, start: bytes, word: bytes) -> None:
        self.asked = 0
        self.page = b""
        self._start = start
        self._word = word
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._over.set()
        self._listener.close()

    def _accept(self) -> None:
        try:
            while True:
                connection, _ = self._listener.accept()
                self.asked += 1
                threading.Thread(target=self._drip, args=(connection,), daemon=True).start()
        except OSError:
            return

    def _drip(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.recv(4096)
                if self.page:
                    connection.sendall(ANSWER + self.page)
                    return
                connection.sendall(self._start)
                while not self._over.wait(0.05):
                    connection.sendall(self._word)
        except OSError:
            return


@pytest.fixture(
    params=[(b"", b""), (ANSWER, b" "), (HEAD, b"X-Again: 1\r\n")], ids=["silent", "dripping", "dripping headers"]
)
def stuck(request: pytest.FixtureRequest) -> Iterator[Stuck]:
    server = Stuck(*request.param)
    yield server
    server.close()


def test_an_issuer_that_is_stuck_is_given_up_once_for_all_who_wait(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "_ANSWER_SECONDS", 0.4)
    monkeypatch.setattr(oidc, "_STEP_SECONDS", 0.2)

    async def callers(count: int) -> list[BaseException | object]:
        keys = oidc.Keys(stuck.url)
        found = await asyncio.gather(*(keys.get("one") for _ in range(count)), return_exceptions=True)
        return [*found, *await asyncio.gather(keys.get("two"), return_exceptions=True)]

    began = time.monotonic()
    told = asyncio.run(callers(5))
    assert [type(each) for each in told] == [OSError] * 6
    assert time.monotonic() - began < 5 * 0.4
    assert stuck.asked == 1


def page(key_id: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    made = jwt.algorithms.ECAlgorithm.to_jwk(key, as_dict=True)
    return json.dumps({"keys": [{**made, "kid": key_id}]}).encode()


def assert_nobody_asks() -> None:
    """Nothing is left of those that were given up, long before a step of theirs has to end."""
    for thread in threading.enumerate():
        if thread.name == "issuer's keys":
            thread.join(5)
            assert not thread.is_alive()


def test_an_issuer_that_has_recovered_is_asked_again_whoever_was_given_up_before(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shared threads are few on a small machine: here there is one."""
    monkeypatch.setattr(oidc, "_ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(oidc, "_STEP_SECONDS", 30)
    monkeypatch.setattr(oidc, "_WITHOUT_KEYS_SECONDS", 0)

    async def callers() -> object:
        with ThreadPoolExecutor(1) as executor:
            asyncio.get_running_loop().set_default_executor(executor)
            keys = oidc.Keys(stuck.url)
            for _ in range(2):
                with pytest.raises(OSError, match="no answer"):
                    await keys.get("one")
            stuck.page = page("one")
            return await keys.get("one")

    assert asyncio.run(callers()) is not None
    assert_nobody_asks()


def test_an_issuer_that_never_ends_its_handshake_is_given_up_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "_ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(oidc, "_STEP_SECONDS", 30)
    stuck = Stuck(b"", b"")

    async def caller() -> None:
        await oidc.Keys(stuck.url.replace("http:", "https:")).get("one")

    with pytest.raises(OSError, match="no answer"):
        asyncio.run(caller())
    assert stuck.asked == 1
    assert_nobody_asks()
    stuck.close()
