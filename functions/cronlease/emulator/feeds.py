"""A local HTTP server with sample feeds of every kind in their true shapes, whose openings come, change and close.

A feed is found by its path alone, as a vendor's is. Those with validators answer 304 while nothing has changed.
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

from cronlease.emulator import markup, shapes
from cronlease.emulator.samples import samples
from cronlease.emulator.shapes import Asked, is_first_page

_JSON = "application/json; charset=utf-8"


class Kind(NamedTuple):
    """How one kind of feed is served: where, what is written, as what, and whether it can answer 304."""

    path: str
    document: Callable[[Asked], Any]
    content_type: str = _JSON
    has_validators: bool = False


KINDS = {
    "greenhouse": Kind("/v1/boards/{}/jobs", shapes.greenhouse),
    "lever": Kind("/v0/postings/{}", shapes.lever),
    "ashby": Kind("/posting-api/job-board/{}", shapes.ashby),
    "smartrecruiters": Kind("/v1/companies/{}/postings", shapes.smartrecruiters),
    "recruitee": Kind("/{}.recruitee/api/offers/", shapes.recruitee),
    "workable": Kind("/api/v1/widget/accounts/{}", shapes.workable),
    "teamtailor": Kind("/{}.teamtailor/jobs.json", shapes.teamtailor),
    "personio": Kind("/{}.jobs.personio/xml", markup.personio, "application/xml; charset=utf-8"),
    "rss": Kind("/{}.rss", markup.rss, "application/rss+xml; charset=utf-8", has_validators=True),
    "atom": Kind("/{}.atom", markup.atom, "application/atom+xml; charset=utf-8", has_validators=True),
    "jsonfeed": Kind("/{}.json", shapes.jsonfeed, "application/feed+json", has_validators=True),
    "socrata": Kind("/resource/{}.json", shapes.socrata, has_validators=True),
}


class Feed(NamedTuple):
    """One sample feed. Reader is the kind in its [[source]] where that has another name: `rss` reads Atom, too.
    Fields is what only its source can say."""

    kind: str
    organization: str
    query: str = ""
    reader: str = ""
    fields: str = ""

    def path(self, name: str) -> str:
        return KINDS[self.kind].path.format(name)


_LICENCE = """\
[source.fields]
title = "business_name"
location = "address_city"
posted_at = "license_creation_date"
"""
FEEDS = {
    "acme": Feed("greenhouse", "Acme"),
    "globex": Feed("greenhouse", "Globex"),
    "initech": Feed("lever", "Initech", "?mode=json&skip=0&limit=5"),
    "hooli": Feed("ashby", "Hooli"),
    "vandelay": Feed("smartrecruiters", "Vandelay", "?limit=5&offset=0"),
    "duff": Feed("recruitee", "Duff"),
    "wonka": Feed("workable", "Wonka"),
    "stark": Feed("teamtailor", "Stark"),
    "nakatomi": Feed("personio", "Nakatomi"),
    "springfield": Feed("rss", "City of Springfield"),
    "shelbyville": Feed("atom", "City of Shelbyville", reader="rss"),
    "tyrell": Feed("jsonfeed", "Tyrell"),
    "w7w3-xahh": Feed("socrata", "City of Ogdenville", "?$limit=5&$offset=0", fields=_LICENCE),
}
# What the emulator's own sources file lists: no more than are fetched at once, so that a run takes one latency, and
# none whose openings have our port in their addresses, so that a second start does not change them all.
LISTED = ("acme", "globex", "initech", "stark", "springfield")


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes
    headers: dict[str, str]


_NOT_FOUND = Answer(404, _JSON, b'{"status": 404, "error": "Job not found"}', {})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A run asks all sources at once; who does not fit in the queue tries again after a second.
    request_queue_size = 64


class FeedServer:
    """Serves the feeds on a free loopback port once started; the first page of each takes `latency` seconds.
    Time passes for the boards from the first request on."""

    def __init__(self, *, latency: float, seed: int = 0) -> None:
        self._first_asked: float | None = None
        self._latency = latency
        self._seed = seed
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._names = {feed.path(name): name for name, feed in FEEDS.items()}

    def write_sources(self, path: Path, names: tuple[str, ...] = LISTED) -> None:
        """The sources file that points the job at these feeds."""
        path.write_text("\n".join(_source(name, FEEDS[name], self.url) for name in names), encoding="utf-8")

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

    def answer(self, target: str, etag: str | None) -> Answer:
        parts = urlsplit(target)
        name = self._names.get(parts.path)
        if name is None:
            return _NOT_FOUND
        kind = KINDS[FEEDS[name].kind]
        query = dict(parse_qsl(parts.query))
        # Not before: however long the function takes to start, its first run sees the same.
        if self._first_asked is None:
            self._first_asked = time.monotonic()
        if is_first_page(query):
            self._closing.wait(self._latency)
        openings = samples(name, time.monotonic() - self._first_asked, self._seed)
        asked = Asked(name, openings, f"{self.url}{parts.path}", query)
        validators = {"ETag": _etag(asked)} if kind.has_validators else {}
        if etag is not None and validators.get("ETag") == etag:
            return Answer(304, kind.content_type, b"", validators)
        document = kind.document(asked)
        body = (document if isinstance(document, str) else json.dumps(document)).encode()
        return Answer(200, kind.content_type, body, validators)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        feeds = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = feeds.answer(self.path, self.headers.get("If-None-Match"))
                try:
                    self.send_response(answer.status)
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Type", answer.content_type)
                    self.send_header("Content-Length", str(len(answer.body)))
                    self.end_headers()
                    self.wfile.write(answer.body)
                except ConnectionError:  # the reader did not wait
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Says nothing: the terminal belongs to the hits."""

        return Handler


def _etag(asked: Asked) -> str:
    """Of the whole feed, not of the page: a first page that is the same must not hide that a later one is not."""
    return f'"{hashlib.sha256(repr(asked).encode()).hexdigest()[:32]}"'


def _source(name: str, feed: Feed, url: str) -> str:
    return (
        "[[source]]\n"
        f'name = "{name}"\n'
        f'kind = "{feed.reader or feed.kind}"\n'
        f'url = "{url}{feed.path(name)}{feed.query}"\n'
        f'organization = "{feed.organization}"\n'
        "allow_private = true\n"
        f"{feed.fields}"
    )
