"""Check-ins: tells a monitor that a real run has started, and how it ended. Knows nothing of schedules.

Nothing here changes a run or holds it up: each check-in is sent by a thread of its own, what goes wrong is a warning,
and the end is waited for no longer than a constant. The address is a secret: only its host is ever named.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from urllib.parse import quote, urlsplit, urlunsplit
from uuid import UUID

from cronlease.observe import webhook
from cronlease.observe.logs import log
from cronlease.outcome import FailReason, Outcome

# Of one step: connecting, or waiting for the answer.
_STEP_SECONDS = 1.5
# The end lets a start that is still on its way go first: arriving last, it would look like a run that never ends.
_START_FIRST_SECONDS = 0.5
# Less than a process that is told to stop has for its last words.
_AWAITED_SECONDS = 2.5
# Another run follows at once, or is at work already: that one tells.
_NOT_THE_END = (FailReason.INTERRUPTED, FailReason.LEASE_LOST)


class CheckIns:
    """Those of one run; made when it starts, and the start is sent."""

    def __init__(self, url: str, function: str, request_id: UUID, headers: Mapping[str, str]) -> None:
        self._parts = urlsplit(url.replace("{function}", quote(function, safe="")))
        self._function = function
        self._request_id = request_id
        self._headers = headers
        self._given_up = False
        self._start = self._send("start", "/start")

    async def end(self, outcome: Outcome) -> None:
        """Sends how the run ended, and waits for it a little: afterwards the platform may take the CPU away."""
        if outcome.failed in _NOT_THE_END:
            return
        loop, sent = asyncio.get_running_loop(), asyncio.Event()

        def say_sent() -> None:
            # Nobody waits any more when the loop is closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(sent.set)

        suffix = "" if outcome.failed is None else "/fail"
        self._send("end", suffix, " ".join((outcome.error or "").split()), after=self._start, then=say_sent)
        try:
            await asyncio.wait_for(sent.wait(), _AWAITED_SECONDS)
        except TimeoutError:
            self._warn("end", "it did not answer in time")
            self._given_up = True

    def _send(
        self,
        what: str,
        suffix: str,
        body: str = "",
        after: threading.Thread | None = None,
        then: Callable[[], None] = lambda: None,
    ) -> threading.Thread | None:
        def send() -> None:
            if after is not None and after.is_alive():
                after.join(_START_FIRST_SECONDS)
            if (trouble := self._trouble_with(suffix, body)) is not None and not self._given_up:
                self._warn(what, trouble)
            then()

        try:
            return webhook.start(send, f"check-in {self._request_id}")
        except RuntimeError as error:
            # No thread is to be had: the run must not end for it.
            self._warn(what, str(error))
            then()
        return None

    def _trouble_with(self, suffix: str, body: str) -> str | None:
        """Sends one and says what went wrong, in words that hold nothing of the address."""
        # Where the address is our own, by mistake, no run starts another.
        headers = {"Content-Type": "text/plain; charset=utf-8", **self._headers}
        return webhook.trouble_with(self._address(suffix), body.encode() or None, headers, _STEP_SECONDS)

    def _address(self, suffix: str) -> str:
        parts = self._parts
        query = f"{parts.query}&rid={self._request_id}" if parts.query else f"rid={self._request_id}"
        return urlunsplit(parts._replace(path=parts.path.rstrip("/") + suffix, query=query, fragment=""))

    def _warn(self, what: str, trouble: str) -> None:
        why = f"{self._parts.hostname}: {trouble}"
        log(
            logging.WARNING,
            f"The check-in for the {what} of a run failed, which does not affect the run: {why}",
            action="check_in_failed",
            function=self._function,
            request_id=str(self._request_id),
        )
