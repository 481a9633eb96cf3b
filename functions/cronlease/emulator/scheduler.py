"""Hits a URL as Cloud Scheduler does. Knows nothing of what answers."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2

JOB_NAME = "projects/local/locations/emulator/jobs/refresh"
_ATTEMPT_DEADLINE = 180.0


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit and its answer; `error` when there was none."""

    number: int
    sent_at: datetime
    seconds: float
    status: int | None = None
    body: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


def headers(slot: datetime) -> dict[str, str]:
    """What Cloud Scheduler sends along; it sends no body, and calls that nothing octet-stream."""
    return {
        "User-Agent": "Google-Cloud-Scheduler",
        "X-CloudScheduler": "true",
        "X-CloudScheduler-JobName": JOB_NAME,
        "X-CloudScheduler-ScheduleTime": slot.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "Content-Type": "application/octet-stream",
    }


class Scheduler:
    """A new hit every so many seconds, whether or not the one before was answered."""

    def __init__(self, url: str, *, every: float, answered: Callable[[Hit], None]) -> None:
        self._url = url
        self._every = every
        self._answered = answered
        # A connection per hit: one kept for the next could be closed by the server just as it is used.
        unkept = httpx2.Limits(max_keepalive_connections=0)
        self._client = httpx2.Client(timeout=_ATTEMPT_DEADLINE, limits=unkept, trust_env=False)
        self._stopping = threading.Event()
        self._hits: list[threading.Thread] = []
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def start(self) -> None:
        self._ticker.start()

    def stop_hitting(self) -> None:
        """No new hits; those under way go on."""
        self._stopping.set()
        self._ticker.join()

    def close(self, seconds: float) -> None:
        """Waits so long for the answers that are still due."""
        self.stop_hitting()
        deadline = time.monotonic() + seconds
        for hit in self._hits:
            hit.join(max(0.0, deadline - time.monotonic()))
        self._client.close()

    def _tick(self) -> None:
        first, begun, number = datetime.now(UTC), time.monotonic(), 0
        while not self._stopping.wait(max(0.0, begun + number * self._every - time.monotonic())):
            slot = first + timedelta(seconds=number * self._every)
            number += 1
            hit = threading.Thread(target=self._hit, args=(number, slot), daemon=True)
            hit.start()
            self._hits = [*(earlier for earlier in self._hits if earlier.is_alive()), hit]

    def _hit(self, number: int, slot: datetime) -> None:
        sent_at, began = datetime.now(UTC), time.monotonic()
        try:
            response = self._client.post(self._url, headers=headers(slot))
            status, body, error = response.status_code, _object(response), None
        except httpx2.HTTPError as failed:
            status, body, error = None, {}, str(failed) or type(failed).__name__
        self._answered(Hit(number, sent_at, time.monotonic() - began, status, body, error))


def _object(response: httpx2.Response) -> dict[str, Any]:
    try:
        found = response.json()
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"error": response.text[:200]}
