"""The keys of an issuer that does not answer as it should: nobody waits long, and it is not asked again and again."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from cronlease import oidc

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


class Stuck:
    """Takes every connection; a word is said on each, again and again, or none."""

    def __init__(self, word: bytes) -> None:
        self.asked = 0
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
                connection.sendall(ANSWER if self._word else b"")
                while not self._over.wait(0.05):
                    connection.sendall(self._word)
        except OSError:
            return


@pytest.fixture(params=[b"", b" "], ids=["silent", "dripping"])
def stuck(request: pytest.FixtureRequest) -> Iterator[Stuck]:
    server = Stuck(request.param)
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
