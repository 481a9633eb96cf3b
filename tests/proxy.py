"""A TCP proxy before Postgres that can misbehave: pass, cut, fall silent, stall, hold one message, or lose one."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from psycopg.conninfo import conninfo_to_dict, make_conninfo


@dataclass
class Held:
    """A message that waits in the proxy: itself on its way to the server (request), or its answer (reply)."""

    text: bytes
    what: str
    reached: threading.Event = field(default_factory=threading.Event)
    settled: threading.Event = field(default_factory=threading.Event)
    dropped: bool = False
    _go: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """It goes on as if nothing had happened."""
        self._go.set()

    def drop(self) -> None:
        """It is never delivered: its connection ends."""
        self.dropped = True
        self._go.set()

    def wait(self) -> bool:
        """Whether it may go on."""
        self.reached.set()
        self._go.wait()
        return not self.dropped


@dataclass
class Link:
    """One connection through the proxy, and what is to become of the next answer on it."""

    client: socket.socket
    server: socket.socket
    deaf: bool = False
    held: Held | None = None


class Proxy:
    """Forwards to the server of a DSN. `silent` swallows everything both ways; stalled, it keeps everything and
    delivers it when healed, as a network does; `lose` waits for a text on its way to the server and then ends that
    connection: before the server sees it, or after, with the answer lost; `hold` keeps such a message."""

    def __init__(self, dsn: str, listener: socket.socket | None = None) -> None:
        """Listens on loopback, or where it is told to."""
        self.lead_to(dsn)
        self._listener = listener or socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._links: list[Link] = []
        self._lock = threading.Lock()
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=self.port)
        self._speaking = threading.Event()
        self._speaking.set()
        self.refusing = False
        self.refuse_next = 0
        self.losing: tuple[bytes, str] | None = None
        self.lost = 0
        self.connections = 0
        self._waiting: Held | None = None
        self._all_held: list[Held] = []
        self._flowing = threading.Event()
        self._flowing.set()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    @property
    def silent(self) -> bool:
        return not self._speaking.is_set()

    @silent.setter
    def silent(self, silent: bool) -> None:
        (self._speaking.clear if silent else self._speaking.set)()

    def lead_to(self, dsn: str) -> None:
        """New connections go to that server: one that restarted has another port."""
        target = conninfo_to_dict(dsn)
        self._target = (str(target.get("host", "127.0.0.1")), int(target.get("port") or 5432))

    def lose(self, text: bytes, what: str) -> None:
        """what: request (the server never sees the text) or reply (the server acts on it, nobody hears)."""
        self.losing = (text, what)

    def hold(self, text: bytes, what: str = "request") -> Held:
        """Holds the next message with that text, or the answer to it."""
        self._waiting = Held(text, what)
        self._all_held.append(self._waiting)
        return self._waiting

    def drop_held(self) -> None:
        """Nothing is held any more, nor waited for."""
        self._waiting, held, self._all_held = None, self._all_held, []
        for each in held:
            each.drop()

    def stall(self) -> None:
        self._flowing.clear()

    def heal(self) -> None:
        self._flowing.set()

    def shut(self) -> None:
        """Nobody listens at the port any more, and what was connected is not."""
        _close(self._listener)
        self.cut()

    def reopen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Ends every connection there is; new ones pass."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            _end(link)

    def close(self) -> None:
        _close(self._listener)
        self.drop_held()
        self._flowing.set()
        self._speaking.set()
        self.cut()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.refusing or self.refuse_next:
                self.refuse_next = max(0, self.refuse_next - 1)
                client.close()
                continue
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            link = Link(client, server)
            with self._lock:
                self._links.append(link)
            for pump in (self._pump_to_server, self._pump_to_client):
                threading.Thread(target=pump, args=(link,), daemon=True).start()

    def _pump_to_server(self, link: Link) -> None:
        with contextlib.suppress(OSError):
            while data := link.client.recv(65536):
                self._flowing.wait()
                if self.silent:
                    continue
                held = self._to_be_held(link, data)
                if not self._may_be_lost(link, data) or (held is not None and not held.wait()):
                    break
                _deliver(link.server, data, held)
        self._over(link)

    def _pump_to_client(self, link: Link) -> None:
        with contextlib.suppress(OSError):
            while data := link.server.recv(65536):
                self._flowing.wait()
                if link.deaf:
                    # The server has answered the message whose reply is to be lost: it has acted on it.
                    break
                if self.silent:
                    continue
                held, link.held = link.held, None
                if held is not None and not held.wait():
                    break
                _deliver(link.client, data, held)
        self._over(link)

    def _over(self, link: Link) -> None:
        """A network that delivers nothing does not deliver the end of a connection either."""
        self._speaking.wait()
        self._flowing.wait()
        _end(link)

    def _may_be_lost(self, link: Link, data: bytes) -> bool:
        """Whether the message may go on; where its reply is to be lost, it may."""
        if self.losing is None or self.losing[0] not in data:
            return True
        what, self.losing = self.losing[1], None
        self.lost += 1
        link.deaf = what == "reply"
        return link.deaf

    def _to_be_held(self, link: Link, data: bytes) -> Held | None:
        """What holds this message; where its answer is waited for, that one will be held."""
        held = self._waiting
        if held is None or held.text not in data:
            return None
        self._waiting = None
        if held.what == "request":
            return held
        link.held = held
        return None


def _deliver(to: socket.socket, data: bytes, held: Held | None) -> None:
    try:
        to.sendall(data)
    finally:
        if held is not None:
            held.settled.set()


def _end(link: Link) -> None:
    _close(link.client)
    _close(link.server)


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()


@contextlib.contextmanager
def proxied(dsn: str, listener: socket.socket | None = None) -> Iterator[Proxy]:
    proxy = Proxy(dsn, listener)
    try:
        yield proxy
    finally:
        proxy.close()
