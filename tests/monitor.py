"""A monitor that waits for check-ins: a real HTTP server that remembers what it was asked, and may misbehave."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Behave = Callable[["_Handler"], None]


class CheckedIn(NamedTuple):
    method: str
    path: str
    query: str
    body: str


class Monitor(ThreadingHTTPServer):
    """Answers 200; `behave` is what it does instead. `over` is set when the test is."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[CheckedIn] = []
        self.behave: Behave = ok
        self.over = threading.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def paths(self) -> list[str]:
        return [each.path for each in self.asked]


class _Handler(BaseHTTPRequestHandler):
    server: Monitor

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.server.asked.append(CheckedIn(self.command, path, query, body))
        self.server.behave(self)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: Any) -> None: ...


def ok(handler: _Handler, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", "2")
    handler.end_headers()
    handler.wfile.write(b"OK")


def error(handler: _Handler) -> None:
    ok(handler, 500)


def silence(handler: _Handler) -> None:
    handler.server.over.wait(30)


def drip(handler: _Handler) -> None:
    """An answer that goes on and on: no single read of it takes long."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b"x")


def redirect(handler: _Handler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "/elsewhere")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def close(handler: _Handler) -> None:
    """Takes the request and hangs up: the answer is lost."""
    handler.close_connection = True


def garbage(handler: _Handler) -> None:
    handler.wfile.write(b"no HTTP at all\r\n\r\n")
    handler.close_connection = True


@contextmanager
def monitoring() -> Iterator[Monitor]:
    monitor = Monitor()
    # What it says to who has left is nobody's concern.
    monitor.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=monitor.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield monitor
    finally:
        monitor.over.set()
        monitor.shutdown()
        monitor.server_close()
        thread.join()
