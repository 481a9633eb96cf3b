"""Sends one HTTP request to somebody else's server, from a thread of its own.

A server that hangs holds up nobody: the thread is a daemon, and whoever waits for it decides how long.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any


def trouble_with(
    url: str, body: bytes | None, headers: Mapping[str, str], seconds: float, *, redirects: bool = True
) -> str | None:
    """Sends it and returns what went wrong, without any part of the address. `seconds` limits one step:
    connecting, or waiting for the answer. It imports what it needs in the sending thread, not in the run's."""
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    opener = build_opener() if redirects else build_opener(NoRedirects)
    request = Request(url, body, {"User-Agent": "cronlease", **headers})  # noqa: S310 (settings take http only)
    try:
        with opener.open(request, timeout=seconds):
            return None
    except HTTPError as error:
        error.close()
        return f"it answered {error.code}"
    except URLError as error:
        return str(error.reason)
    except TimeoutError:
        return "it did not answer in time"
    except Exception as error:
        return type(error).__name__


def start(work: Callable[[], None], name: str) -> threading.Thread:
    """Works in a thread whose log lines belong to the same request. Raises RuntimeError if none can be started."""
    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name=name, daemon=True)
    thread.start()
    return thread


async def wait_for(work: Callable[[], None], name: str, seconds: float) -> None:
    """Works in such a thread, and waits for its end. Raises TimeoutError after that time; the thread goes on."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def work_and_tell() -> None:
        work()
        # After the loop is closed, nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(done.set)

    start(work_and_tell, name)
    await asyncio.wait_for(done.wait(), seconds)
