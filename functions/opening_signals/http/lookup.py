"""Resolves host names, each on its own thread. Knows nothing of sources or of which addresses are allowed.

The system's resolver cannot be interrupted, and may take half a minute for a name whose server does not answer. A few
such names would block all threads that the loop shares.
"""

import asyncio
import socket
from concurrent.futures import Future
from threading import Lock, Thread

# More than sources are ever fetched at the same time. A lookup that hangs keeps its thread until the system gives up.
MOST = 128
_pending: dict[tuple[str, int], "Future[list[str]]"] = {}
_lock = Lock()


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of the host, in the order to try them. The caller limits the time."""
    return await asyncio.wrap_future(_start(host, port))


def _start(host: str, port: int) -> "Future[list[str]]":
    """The lookup of that name: the one in progress, or a new one."""
    with _lock:
        if (pending := _pending.get((host, port))) is not None:
            return pending
        if len(_pending) >= MOST:
            raise socket.gaierror(socket.EAI_AGAIN, "too many lookups are under way")
        lookup: Future[list[str]] = Future()
        # From here on a caller who stops waiting cannot cancel it for the others.
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
