"""A text that is made to be slow, at a real server: nobody else waits for it (P31)."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.acceptance.conftest import Serve, Served
from tests.integration.conftest import Room

BODY = 64 * 1024 - 20
ERROR = 80_000


@contextmanager
def probing(served: Served) -> Iterator[list[float]]:
    """Asks for its health all the time, and notes how long each answer took."""
    took: list[float] = []
    ended = threading.Event()

    def probe() -> None:
        while not ended.is_set():
            started = time.monotonic()
            served.hit("/health/live", method="GET")
            took.append(time.monotonic() - started)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield took
    finally:
        ended.set()
        thread.join()


def test_nobody_waits_for_a_text_that_is_made_to_be_slow(serve: Serve, room: Room) -> None:
    room.query("create table effect (request_id uuid)")
    served = serve(room.dsn)
    with probing(served) as took:
        for text in ("A", "a://x:", "a://b?", "http://a", "password="):
            name = text * (BODY // len(text)) + "://"
            refused = served.hit(content=f'{{"{name}": 1}}')
            failed = served.force(fail=text, times=ERROR // len(text))
            assert (refused.status_code, len(refused.json()["error"]) < 150) == (400, True)
            assert "unknown field" in refused.json()["error"]
            assert failed["status"] == "failed"
            assert failed["error"].startswith("ValueError: ")
    assert max(took) < 1
    assert max(len(str(line)) for line in served.log()) < 60_000
