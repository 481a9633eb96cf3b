"""A TCP proxy before Postgres that can misbehave: pass, cut, fall silent, or lose one message and what comes back."""

import contextlib
import socket
import threading
from collections.abc import Iterator

from psycopg.conninfo import conninfo_to_dict, make_conninfo


class Proxy:
    """Forwards to the server of a DSN. `silent` swallows everything both ways; `losing` waits for a text on its way
    to the server and then ends that connection: before the server sees it, or after, with the answer lost."""

    def __init__(self, dsn: str) -> None:
        target = conninfo_to_dict(dsn)
        self._target = (str(target.get("host", "127.0.0.1")), int(target.get("port") or 5432))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._links: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=self._listener.getsockname()[1])
        self.silent = False
        self.refusing = False
        self.losing: tuple[bytes, str] | None = None
        self.lost = 0
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, text: bytes, what: str) -> None:
        """what: request (the server never sees the text) or reply (the server acts on it, nobody hears)."""
        self.losing = (text, what)

    def cut(self) -> None:
        """Ends every connection there is; new ones pass."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            _end(*link)

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.refusing:
                client.close()
                continue
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._links.append((client, server))
            deaf = threading.Event()
            threading.Thread(target=self._pump, args=(client, server, True, deaf), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, False, deaf), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, to_server: bool, deaf: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.silent or (deaf.is_set() and not to_server):
                    if deaf.is_set():
                        # The server has answered the message whose reply is to be lost: it has acted on it.
                        break
                    continue
                if to_server and self.losing and self.losing[0] in data:
                    what, self.losing = self.losing[1], None
                    self.lost += 1
                    if what == "request":
                        break
                    deaf.set()
                sink.sendall(data)
        _end(source, sink)


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


@contextlib.contextmanager
def proxied(dsn: str) -> Iterator[Proxy]:
    proxy = Proxy(dsn)
    try:
        yield proxy
    finally:
        proxy.close()
