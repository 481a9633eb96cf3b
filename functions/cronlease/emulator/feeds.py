"""A local HTTP server with sample job boards in Greenhouse's shape, whose openings come, change and close.

What a board says depends only on its name, the seed and the seconds since the start.
"""

import json
import random
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

BOARDS = {"acme": "Acme", "globex": "Globex"}

# Fixed, so that a second start shows the same openings and they are recognised as seen before.
_EPOCH = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
_NEW_EVERY = 9.0
_OPEN_FOR = (20.0, 90.0)
_OPEN_AT_START = 8
_TITLES = ("Baker", "Store Manager", "Florist", "Data Engineer", "Shift Supervisor", "Pâtissier", "Electrician")
_CHANGES = ("Senior {}", "{} (part-time)", "{}, evenings", "Lead {}")
_PLACES = ("Leeds, UK", "Lyon, France", "Porto, Portugal", "Malmö, Sweden", "Berlin, Germany", "Remote")


def openings(board: str, elapsed: float, seed: int = 0) -> list[dict[str, Any]]:
    """The openings of a board so many seconds after the start, newest last."""
    newest = int(elapsed // _NEW_EVERY)
    oldest = newest - int(_OPEN_FOR[1] // _NEW_EVERY)
    if oldest <= 0:  # those that were there at the start have the numbers up to 0
        oldest = 1 - _OPEN_AT_START
    drawn = (_opening(board, number, elapsed, seed) for number in range(oldest, newest + 1))
    return [opening for opening in drawn if opening is not None]


def _opening(board: str, number: int, elapsed: float, seed: int) -> dict[str, Any] | None:
    # Its own random source: what one opening does must not depend on which others were asked for.
    draw = random.Random(f"{seed}/{board}/{number}")  # noqa: S311
    appears = max(number, 0) * _NEW_EVERY
    closes = appears + draw.uniform(*_OPEN_FOR)
    changes = draw.uniform(appears, closes)
    if elapsed >= closes:
        return None
    changed = elapsed >= changes
    title, change = draw.choice(_TITLES), draw.choice(_CHANGES)
    identity = 4_000_000 + 1_000 * (_OPEN_AT_START + number) + draw.randrange(1_000)
    return {
        "id": identity,
        "internal_job_id": identity - 900_000,
        "title": change.format(title) if changed else title,
        "updated_at": (_EPOCH + timedelta(seconds=int(changes if changed else appears))).isoformat(),
        "first_published": (_EPOCH + timedelta(seconds=int(appears))).isoformat(),
        "requisition_id": f"R-{_OPEN_AT_START + number}",
        "location": {"name": draw.choice(_PLACES)},
        "absolute_url": f"https://boards.example/{board}/jobs/{identity}",
        "metadata": None,
    }


class FeedServer:
    """Serves the boards on a free loopback port once started; each answer takes `latency` seconds."""

    def __init__(self, *, latency: float, seed: int = 0) -> None:
        self._started = time.monotonic()
        self._latency = latency
        self._seed = seed
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def write_sources(self, path: Path) -> None:
        """The sources file that points the job at these boards."""
        path.write_text("\n".join(_source(token, name, self.url) for token, name in BOARDS.items()), encoding="utf-8")

    def start(self) -> None:
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()  # answers that wait out their latency are given at once
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        board = path.partition("?")[0].removeprefix("/v1/boards/").removesuffix("/jobs")
        if path.partition("?")[0] != f"/v1/boards/{board}/jobs" or board not in BOARDS:
            return 404, {"status": 404, "error": "Job not found"}
        self._closing.wait(self._latency)
        jobs = openings(board, time.monotonic() - self._started, self._seed)
        return 200, {"jobs": jobs, "meta": {"total": len(jobs)}}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        feeds = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = feeds.answer(self.path)
                content = json.dumps(body).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json; charset=utf-8")
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except ConnectionError:  # the reader did not wait
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Says nothing: the terminal belongs to the hits."""

        return Handler


def _source(token: str, organization: str, url: str) -> str:
    return (
        "[[source]]\n"
        f'name = "{token}"\n'
        'kind = "greenhouse"\n'
        f'url = "{url}/v1/boards/{token}/jobs"\n'
        f'organization = "{organization}"\n'
        "allow_private = true\n"
    )
