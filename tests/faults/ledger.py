"""What callers were answered, compared with what the database says afterwards: the invariants of any number of
hits."""

import random
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx2

from tests.acceptance.conftest import Served
from tests.integration.conftest import Room


class Ledger:
    """Every answer, by request ID. Filled by many threads."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}
        self.hits: Counter[str] = Counter()
        self._lock = threading.Lock()

    def enter(self, answer: dict[str, Any] | None) -> None:
        """None is a hit that nobody answered."""
        with self._lock:
            if answer is None:
                self.hits["unanswered"] += 1
                return
            word = str(answer.get("reason") or answer.get("status"))
            self.hits[word] += 1
            if not answer.get("skipped"):
                self.told[str(answer["request_id"])] = word

    def violations(self, room: Room) -> list[str]:
        """Acknowledged means kept, refused means not written, and each run that the history calls a success has left
        its one row."""
        effects = Counter(str(key) for (key,) in room.query("select request_id from effect"))
        rows = room.query("select request_id, status, fence from refresh_runs order by fence")
        runs = {str(key): status for key, status, _ in rows}
        fences = [fence for *_, fence in rows]
        ((fence, holder),) = room.query("select fence, locked_by from refresh_schedule")
        successes = {key for key, status in runs.items() if status == "success"}
        acknowledged = {key for key, word in self.told.items() if word == "success"}
        refused = {
            key for key, word in self.told.items() if word in ("failed", "lease_lost", "deadline", "interrupted")
        }
        checks = {
            "acknowledged runs that are not there": acknowledged - successes,
            "runs that were refused and are there": refused & effects.keys(),
            "runs whose effect is not there": successes - effects.keys(),
            "effects of runs that did not succeed": effects.keys() - successes,
            "effects that are there twice": {key for key, count in effects.items() if count > 1},
            "fences given twice": {fence for fence, count in Counter(fences).items() if count > 1},
            "open runs that nobody holds": {key for key, status in runs.items() if status == "running"} - {holder},
            "fences above the schedule's own": {each for each in fences if each > fence},
        }
        return [f"{what}: {sorted(map(str, found))}" for what, found in checks.items() if found]


class Caller(threading.Thread):
    """Sends forced hits to one server or another until stopped; each answer is entered into the ledger."""

    def __init__(
        self, servers: Sequence[Served], ledger: Ledger, source: random.Random, longest_run: float = 0
    ) -> None:
        super().__init__(daemon=True)
        self._servers, self._ledger, self._random, self._longest_run = servers, ledger, source, longest_run
        self._stopped = threading.Event()
        self.start()

    def stop(self) -> None:
        self._stopped.set()
        self.join(60)
        assert not self.is_alive(), "a hit has hung"

    def run(self) -> None:
        with httpx2.Client(timeout=30) as client:
            while not self._stopped.wait(self._random.uniform(0, 0.02)):
                self._ledger.enter(self._hit(client))

    def _hit(self, client: httpx2.Client) -> dict[str, Any] | None:
        server = self._random.choice(self._servers)
        sleep = self._random.uniform(0, self._longest_run)
        try:
            answer: dict[str, Any] = client.post(server.url, json={"force": True, "args": {"sleep": sleep}}).json()
        except (httpx2.TransportError, ValueError):
            return None
        return answer
