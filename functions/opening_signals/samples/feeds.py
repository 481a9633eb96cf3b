"""A local HTTP server with the sample feeds of the demo, in their vendors' formats. Their openings appear, change and
close. A feed with validators answers 304 while nothing has changed."""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from cronlease.emulator.loopback import Answer, LoopbackServer
from opening_signals.samples import shapes
from opening_signals.samples.boards import samples
from opening_signals.samples.shapes import Asked, is_first_page

_JSON = "application/json; charset=utf-8"


class Feed(NamedTuple):
    """One sample feed. Its source asks with `query`; only with `has_validators` it can answer 304."""

    kind: str
    organization: str
    path: str
    document: Callable[[Asked], Any]
    query: str = ""
    content_type: str = _JSON
    has_validators: bool = False


# No more than are fetched in parallel, so that a run takes one latency. No opening has our port in its address, so
# that a second start does not change them all.
FEEDS = {
    "acme": Feed("greenhouse", "Acme", "/v1/boards/acme/jobs", shapes.greenhouse),
    "globex": Feed("greenhouse", "Globex", "/v1/boards/globex/jobs", shapes.greenhouse),
    "initech": Feed("lever", "Initech", "/v0/postings/initech", shapes.lever, "?mode=json&skip=0&limit=5"),
    "stark": Feed("teamtailor", "Stark", "/stark.teamtailor/jobs.json", shapes.teamtailor),
    "springfield": Feed(
        "rss",
        "City of Springfield",
        "/springfield.rss",
        shapes.rss,
        content_type="application/rss+xml; charset=utf-8",
        has_validators=True,
    ),
}


_NOT_FOUND = Answer(404, _JSON, b'{"status": 404, "error": "Job not found"}')


class FeedServer(LoopbackServer):
    """The first page of each feed takes `latency` seconds. The time of the boards starts with the first request."""

    def __init__(self, *, latency: float) -> None:
        super().__init__()
        self._first_asked: float | None = None
        self._latency = latency
        self._closing = threading.Event()
        self._names = {feed.path: name for name, feed in FEEDS.items()}

    def write_sources(self, path: Path, names: Iterable[str] = tuple(FEEDS)) -> None:
        """The sources file that points the job at these feeds."""
        path.write_text("\n".join(_source(name, FEEDS[name], self.url) for name in names), encoding="utf-8")

    def __exit__(self, *error: Any) -> None:
        self._closing.set()  # answers that wait for their latency are sent now
        super().__exit__(*error)

    def answer(self, target: str, etag: str | None) -> Answer:
        parts = urlsplit(target)
        name = self._names.get(parts.path)
        if name is None:
            return _NOT_FOUND
        feed, query = FEEDS[name], dict(parse_qsl(parts.query))
        # Not earlier: the first run sees the same, however long the function takes to start.
        if self._first_asked is None:
            self._first_asked = time.monotonic()
        if is_first_page(query):
            self._closing.wait(self._latency)
        openings = samples(name, time.monotonic() - self._first_asked)
        asked = Asked(name, openings, f"{self.url}{parts.path}", query)
        current = _etag(asked) if feed.has_validators else None
        if etag is not None and etag == current:
            return Answer(304, feed.content_type, b"", current)
        document = feed.document(asked)
        body = (document if isinstance(document, str) else json.dumps(document)).encode()
        return Answer(200, feed.content_type, body, current)


def _etag(asked: Asked) -> str:
    """Of the whole feed, not of the page: an unchanged first page must not hide a later one that changed."""
    return f'"{hashlib.sha256(repr(asked).encode()).hexdigest()[:32]}"'


def _source(name: str, feed: Feed, url: str) -> str:
    return (
        "[[source]]\n"
        f'name = "{name}"\n'
        f'kind = "{feed.kind}"\n'
        f'url = "{url}{feed.path}{feed.query}"\n'
        f'organization = "{feed.organization}"\n'
        "allow_private = true\n"
    )
