"""Resolves host names, each in a thread of its own. Knows nothing of sources or of which addresses may be reached.

The system's resolver cannot be interrupted, and it may take half a minute for a name that nobody answers for. In the
threads that the loop shares, a few such names would hold up everything else that needs one.
"""

import asyncio
import socket
from concurrent.futures import Future
from threading import Lock, Thread

# More than sources are ever fetched at the same time. Each that hangs takes a thread until the system gives it up.
MOST = 128
_pending: dict[tuple[str, int], "Future[list[str]]"] = {}
_lock = Lock()


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of the host, in the order in which they are to be tried. The caller bounds the time."""
    return await asyncio.wrap_future(_start(host, port))


def _start(host: str, port: int) -> "Future[list[str]]":
    """The lookup of that name, which is a new one unless it is under way already."""
    with _lock:
        if (pending := _pending.get((host, port))) is not None:
            return pending
        if len(_pending) >= MOST:
            raise socket.gaierror(socket.EAI_AGAIN, "too many lookups are under way")
        lookup: Future[list[str]] = Future()
        # From here on nobody who stops waiting can cancel it for the others.
        lookup.set_running_or_notify_cancel()
        Thread(target=_look_up, args=(host, port, lookup), name="resolve", daemon=True).start()
        _pending[host, port] = lookup
        return lookup


def _look_up(host: str, port: int, lookup: "Future[list[str]]") -> None:
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        answer: list[str] | Exception = list(dict.fromkeys(str(address[0]) for *_, address in entries))
    except Exception as error:
        answer = error
    with _lock:
        del _pending[host, port]
    if isinstance(answer, Exception):
        lookup.set_exception(answer)
    else:
        lookup.set_result(answer)
