"""An HTTP server on a free loopback port, in a thread. Knows nothing of what it serves."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes
    etag: str | None = None


class LoopbackServer:
    """Answers GET from start() until the block ends."""

    def __init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, target: str, etag: str | None) -> Answer:
        raise NotImplementedError

    def start(self) -> None:
        """Call it after the last fork: a fork copies the locks of threads, but not the threads."""
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = server.answer(self.path, self.headers.get("If-None-Match"))
                try:
                    self.send_response(answer.status)
                    if answer.etag is not None:
                        self.send_header("ETag", answer.etag)
                    self.send_header("Content-Type", answer.content_type)
                    self.send_header("Content-Length", str(len(answer.body)))
                    self.end_headers()
                    self.wfile.write(answer.body)
                except ConnectionError:  # the client hung up
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Silent: the terminal belongs to the hits."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A run asks all sources in parallel; a connection that does not fit in the queue is retried after a second.
    request_queue_size = 64
