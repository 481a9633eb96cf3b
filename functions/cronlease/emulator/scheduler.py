"""Hits a URL as Cloud Scheduler does, with slots, an attempt deadline and retries, and with faults on request. Knows
nothing of what answers.

Normally a job's next hit is sent after the previous one and its retries, and slots that pass during retries are
dropped. A job at a steady interval, and any job with `overlap`, does not wait.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2

from cronlease.emulator.faults import NO_FAULTS, Dice, Faults
from cronlease.emulator.jobs import TimedJob
from cronlease.slots import Coming

_JOB_NAME = "projects/local/locations/emulator/jobs/{}"
_HANG_UP_SECONDS = 0.05
_MOST_LATE_SECONDS = 5.0
_MOMENT = timedelta(microseconds=1)
# Slots that are hit before the scheduler falls asleep, if it does.
_AWAKE_FOR = 3


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit and its answer, or `error` without one. `note` says what is unusual about it."""

    number: int
    sent_at: datetime
    seconds: float
    status: int | None = None
    body: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    note: str = ""

    @property
    def succeeded(self) -> bool:
        return self.status is not None and 200 <= self.status <= 299


def headers(slot: datetime, job: str) -> dict[str, str]:
    """The headers of Cloud Scheduler, which sends no body and still calls it octet-stream."""
    return {
        "User-Agent": "Google-Cloud-Scheduler",
        "X-CloudScheduler": "true",
        "X-CloudScheduler-JobName": _JOB_NAME.format(job),
        "X-CloudScheduler-ScheduleTime": slot.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "Content-Type": "application/octet-stream",
    }


class Clock:
    """The scheduler's time: starts now, or at `first`, and runs `speed` times as fast as real time."""

    def __init__(self, speed: float = 1.0, first: datetime | None = None) -> None:
        self._speed = speed
        self._first = first or datetime.now(UTC)
        self._began = time.monotonic()

    def now(self) -> datetime:
        return self._first + timedelta(seconds=(time.monotonic() - self._began) * self._speed)

    def real(self, seconds: float) -> float:
        """How many real seconds this many seconds of the clock take."""
        return seconds / self._speed

    def until(self, moment: datetime) -> float:
        """Real seconds until then; 0 when it is past."""
        return max(0.0, self.real((moment - self.now()).total_seconds()))


class Sender:
    """Sends single hits to one address."""

    def __init__(self, url: str, token: Callable[[], str] | None = None) -> None:
        self._url = url
        self._token = token
        self._numbers: Iterator[int] = itertools.count(1)
        # A connection per hit: the server could close a kept one just as it is used again.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx2.Client(limits=limits, trust_env=False, follow_redirects=True)

    def send(self, job: TimedJob, slot: datetime, deadline: float, *, drop: bool = False, note: str = "") -> Hit:
        """One attempt. With `drop` it hangs up immediately, and ignores an answer that comes anyway."""
        number, sent_at, began = next(self._numbers), datetime.now(UTC), time.monotonic()
        sent = headers(slot, job.name)
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token()}"
        timeout = httpx2.Timeout(deadline, read=_HANG_UP_SECONDS if drop else deadline)
        status: int | None = None
        body: dict[str, Any] = {}
        error = "the answer was dropped on purpose" if drop else None
        try:
            response = self._client.post(self._url + job.path.lstrip("/"), headers=sent, timeout=timeout)
            if not drop:
                status, body = response.status_code, _object(response)
        except httpx2.TimeoutException:
            error = error or f"the attempt deadline of {deadline:g} s has passed"
        except httpx2.HTTPError as failed:
            error = error or str(failed) or type(failed).__name__
        return Hit(number, sent_at, time.monotonic() - began, status, body, error, note)

    def close(self) -> None:
        self._client.close()


class Scheduler:
    """Hits one job at its slots until it is stopped; calls `answered` with each hit."""

    def __init__(
        self,
        sender: Sender,
        job: TimedJob,
        *,
        clock: Clock,
        answered: Callable[[Hit], None],
        faults: Faults = NO_FAULTS,
        dice: Dice | None = None,
        asleep: timedelta | None = None,
    ) -> None:
        self._sender = sender
        self._job = job
        self._clock = clock
        self._answered = answered
        self._faults = faults
        self._dice = dice or Dice()
        self._asleep = asleep
        self._waits = not (faults.overlap or isinstance(job.when, timedelta))
        self._stopping = threading.Event()
        self._under_way: list[threading.Thread] = []
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def start(self) -> None:
        self._ticker.start()

    def stop_hitting(self) -> None:
        """Sends no new hits; those in progress go on."""
        self._stopping.set()

    def close(self, seconds: float) -> None:
        """Waits at most this long for outstanding answers."""
        self.stop_hitting()
        deadline = time.monotonic() + seconds
        self._ticker.join(seconds)
        for hit in self._under_way:
            hit.join(max(0.0, deadline - time.monotonic()))

    def _tick(self) -> None:
        began = self._clock.now()
        slots = self._job.slots(began)
        slot, sent = slots.after(began - _MOMENT), 0
        while not self._stopping.wait(self._clock.until(slot)):
            retried = False
            if self._dice.falls(self._faults.duplicate, "duplicate"):
                self._in_thread(self._attempt, slot, "duplicate")
            if self._waits:
                retried = self._execute(slot)
            else:
                self._execute_without_waiting(slot)
            slot = next_slot(slots, slot, self._clock.now(), retried=retried)
            sent += 1
            if sent == _AWAKE_FOR and self._asleep is not None:
                self._dice.count("asleep")
                slot = slots.after(slot + self._asleep)

    def _execute_without_waiting(self, slot: datetime) -> None:
        """With `overlap`, a hit of a steady job that would be alone gets a second one."""
        alone = not any(thread.is_alive() for thread in self._under_way)
        self._in_thread(self._execute, slot)
        if self._faults.overlap and alone and isinstance(self._job.when, timedelta):
            self._in_thread(self._attempt, slot, "overlap")
            alone = False
        if self._faults.overlap and not alone:
            self._dice.count("overlap")

    def _in_thread(self, work: Callable[..., object], *args: object) -> None:
        self._under_way = [thread for thread in self._under_way if thread.is_alive()]
        thread = threading.Thread(target=work, args=args, daemon=True)
        thread.start()
        self._under_way.append(thread)

    def _execute(self, slot: datetime) -> bool:
        """Hits a slot, with retries; returns whether there were any."""
        began, retries = self._clock.now(), 0
        most_late = self._clock.real(_MOST_LATE_SECONDS)
        is_late = self._dice.falls(self._faults.late, "late")
        if is_late and self._stopping.wait(self._dice.random.uniform(0, most_late)):
            return False
        while not self._attempt(slot, f"retry {retries}" if retries else "").succeeded:
            elapsed = (self._clock.now() - began).total_seconds()
            if not self._job.retry.again(retries, elapsed):
                break
            retries += 1
            if self._stopping.wait(self._clock.real(self._job.retry.backoff(retries))):
                break
        return retries > 0

    def _attempt(self, slot: datetime, note: str) -> Hit:
        drop = self._dice.falls(self._faults.drop_response, "dropped response")
        deadline = self._clock.real(self._job.attempt_deadline)
        hit = self._sender.send(self._job, slot, deadline, drop=drop, note=note)
        self._answered(hit)
        return hit


def next_slot(slots: Coming, slot: datetime, now: datetime, *, retried: bool) -> datetime:
    """The slot to hit after this one: the next or, when several have passed, the latest of them. Slots that passed
    during retries are dropped."""
    following = slots.after(slot)
    if following > now:
        return following
    if retried:
        return slots.after(now)
    while (later := slots.after(following)) <= now:
        following = later
    return following


def _object(response: httpx2.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {"error": response.text[:200]}
