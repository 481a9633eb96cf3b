"""Job boards on a real local web server, for the tests of the job."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cronlease.outcome import Outcome
from opening_signals.http import fetch
from tests.integration.conftest import Room

Answer = Callable[[BaseHTTPRequestHandler], None]


def job(identity: Any, title: str = "Baker") -> dict[str, Any]:
    return {"id": identity, "title": title, "absolute_url": f"https://boards.example/jobs/{identity}"}


def board(*jobs: Any) -> bytes:
    return json.dumps({"jobs": jobs}).encode()


def answer(body: bytes, status: int = 200, **headers: str) -> Answer:
    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in ({"Content_Type": "application/json"} | headers).items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return send


def versioned(body: bytes, etag: str = '"1"') -> Answer:
    """As a server that keeps its word: 304 for whoever has this version."""

    def send(handler: BaseHTTPRequestHandler) -> None:
        known = handler.headers.get("If-None-Match") == etag
        answer(b"" if known else body, 304 if known else 200, ETag=etag)(handler)

    return send


def feed(*identities: int, next_url: str | None = None) -> bytes:
    """One page of a JSON Feed."""
    items = [{"id": str(each), "title": "Baker", "url": f"https://jobs.example/{each}"} for each in identities]
    following = {"next_url": next_url} if next_url else {}
    document = {"version": "https://jsonfeed.org/version/1.1", "title": "Acme", "items": items}
    return json.dumps(document | following).encode()


class Feeds:
    """A local web server. What it answers at /<name> is set per test; what it was asked is remembered."""

    def __init__(self, sources: Path) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[dict[str, str]] = []
        self.over = threading.Event()
        self.host = "127.0.0.1"
        self.allow_private = "true"
        self.kind = "greenhouse"
        self._sources = sources
        feeds = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                feeds.asked.append({"path": self.path} | headers)
                try:
                    feeds.answers[self.path.removeprefix("/").partition("?")[0]](self)
                except ConnectionError:  # the reader went away
                    self.close_connection = True

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def serve(self, **answers: Answer | bytes) -> None:
        """Sets the answers, and writes the sources file that asks for them."""
        self.answers = {name: answer(given) if isinstance(given, bytes) else given for name, given in answers.items()}
        self._sources.write_text(
            "\n".join(
                f'[[source]]\nname = "{name}"\nkind = "{self.kind}"\norganization = "Acme"\n'
                f'url = "http://{self.host}:{self.server.server_port}/{name}"\n'
                f"allow_private = {self.allow_private}\n"
                for name in answers
            )
        )

    def rename_path(self, old: str, new: str) -> None:
        """Changes an address in the sources file; the server answers the same."""
        self._sources.write_text(self._sources.read_text().replace(f'/{old}"', f'/{new}"'))


def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeds]:
    """The server, running, with its sources file as the one the job reads: the body of a fixture."""
    monkeypatch.setattr(fetch, "BACKOFF", (0.01, 0.02))
    path = tmp_path / "sources.toml"
    monkeypatch.setenv("CRONLEASE_SOURCES", str(path))
    feeds = Feeds(path)
    thread = threading.Thread(target=feeds.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield feeds
    feeds.over.set()
    feeds.server.shutdown()
    thread.join()
    feeds.server.server_close()


def counts(outcome: Outcome) -> tuple[int | None, ...]:
    made = outcome.counts
    return made.fetched, made.inserted, made.updated, made.unchanged, made.closed


def titles(room: Room) -> dict[str, str]:
    return dict(room.query("select source || '/' || external_id, title from opening_signals"))
