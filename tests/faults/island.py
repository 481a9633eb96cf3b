"""A network of its own, a Linux namespace with nothing but a loopback, which can be cut: then nobody acknowledges
anything, as behind a pulled cable. A proxy cannot do that: its TCP always answers."""

import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.require import need

_NEW_NETWORK = 0x40000000


class Island:
    """Lives as long as the process that holds it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        # Puts a command on the island.
        self.way = ["nsenter", "--net", "--target", str(pid)]

    def cut(self) -> None:
        self._loopback("down")

    def heal(self) -> None:
        self._loopback("up")

    def listener(self) -> socket.socket:
        """A port of the island's loopback; what is accepted there is ours to serve."""
        with self.visit():
            return socket.create_server(("127.0.0.1", 0), backlog=64)

    @contextmanager
    def visit(self) -> Iterator[None]:
        """This thread is there for a while: sockets and processes that it makes belong to the island's network."""
        with Path("/proc/thread-self/ns/net").open() as home, Path(f"/proc/{self._pid}/ns/net").open() as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(home.fileno())

    def _loopback(self, word: str) -> None:
        subprocess.run([*self.way, "ip", "link", "set", "lo", word], check=True)


def _enter(network: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(network, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def island() -> Iterator[Island]:
    """Skips where this machine does not let us have one."""
    for program in ("unshare", "nsenter", "ip"):
        need(program)
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 3600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"up\n":
            pytest.skip("this machine lets us make no network of our own")
        yield Island(holder.pid)
    finally:
        holder.kill()
        holder.communicate()
