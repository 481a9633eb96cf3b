"""Check-ins: tell a monitor that a real run has started, and how it ended. Knows nothing of schedules.

Nothing here changes a run or holds it up: each check-in is sent by a thread of its own, a failure is only a warning,
and a run waits a few seconds at most for its last one. The address is a secret: only its host is ever named.
"""

import logging
import threading
from collections.abc import Mapping
from urllib.parse import quote, urlsplit, urlunsplit
from uuid import UUID

from cronlease.observe import webhook
from cronlease.observe.logs import log
from cronlease.outcome import FailReason, Outcome

# For one step: connecting, or waiting for the answer.
_STEP_SECONDS = 1.5
# How long the end waits for a start that is still being sent: a start that arrives last looks like a run without end.
_START_FIRST_SECONDS = 0.5
# Shorter than a stopping process has to write the ends of its runs.
_AWAITED_SECONDS = 2.5
# Another run follows immediately, or is at work already, and reports its own end.
_NOT_THE_END = (FailReason.INTERRUPTED, FailReason.LEASE_LOST)


class CheckIns:
    """The check-ins of one run. Creating it sends the start."""

    def __init__(self, url: str, function: str, request_id: UUID, headers: Mapping[str, str]) -> None:
        self._parts = urlsplit(url.replace("{function}", quote(function, safe="")))
        self._function = function
        self._request_id = request_id
        self._headers = headers
        self._given_up = False
        self._thread = f"check-in {request_id}"
        self._start: threading.Thread | None = None
        try:
            self._start = webhook.start(lambda: self._send("start", "/start"), self._thread)
        except RuntimeError as error:
            # No thread could be started, which must not end the run.
            self._warn("start", str(error))

    async def end(self, outcome: Outcome) -> None:
        """Sends how the run ended, and waits a little: the platform may take the CPU away afterwards."""
        if outcome.failed in _NOT_THE_END:
            return

        def send() -> None:
            if self._start is not None:
                self._start.join(_START_FIRST_SECONDS)
            suffix = "" if outcome.failed is None else "/fail"
            self._send("end", suffix, " ".join((outcome.error or "").split()))

        try:
            await webhook.wait_for(send, self._thread, _AWAITED_SECONDS)
        except RuntimeError as error:
            self._warn("end", str(error))
        except TimeoutError:
            self._warn("end", "it did not answer in time")
            self._given_up = True

    def _send(self, what: str, suffix: str, body: str = "") -> None:
        # The headers mark it as ours: if the address is our own by mistake, it starts no run.
        headers = {"Content-Type": "text/plain; charset=utf-8", **self._headers}
        trouble = webhook.trouble_with(self._address(suffix), body.encode() or None, headers, _STEP_SECONDS)
        if trouble is not None and not self._given_up:
            self._warn(what, trouble)

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
