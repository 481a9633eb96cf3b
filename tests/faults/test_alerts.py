"""P36: an incident is alerted once, by three processes, to a webhook that fails, hangs up, answers late or never.

A message may come again only where its answer was lost; each such loss is counted.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import psycopg
import pytest

from tests.acceptance.conftest import clean_environment
from tests.faults import alerting
from tests.faults.profile import Profile
from tests.integration.conftest import Room, wait_until
from tests.monitor import Monitor, close, error, monitoring, ok

ROWS = 6
_NAME = re.compile(r"^(row \d+) is (failing|well again)(?:.*incident (\d+))?")


class Webhook:
    """Misbehaves now and then, and knows which of its answers nobody heard."""

    def __init__(self, monitor: Monitor, source: random.Random) -> None:
        self.monitor, self.source, self.lock = monitor, source, threading.Lock()
        self.heard: list[tuple[str, str]] = []
        self.lost: list[tuple[str, str]] = []
        """What came, and what of it was not known to have come: the row, and the incident or `well again`."""
        self.seen: dict[str, int] = defaultdict(int)
        monitor.behave = self.behave

    def behave(self, handler: Any) -> None:
        found = _NAME.match(json.loads(handler.checked_in.body)["text"])
        assert found is not None
        told, began = (found[1], found[3] or found[2]), time.monotonic()
        with self.lock:
            how = self.source.choices(["ok", "error", "close", "late", "hang"], [80, 8, 6, 5.5, 0.5])[0]
            self.seen[how] += 1
            if how == "error":
                error(handler)
                return
            self.heard.append(told)
        if how in ("late", "hang"):
            # Longer than a run waits; and longer than anybody does.
            self.monitor.over.wait(2 * alerting.AWAITED if how == "late" else alerting.ANSWERED + 1)
        (close if how in ("close", "hang") else ok)(handler)
        if how in ("close", "hang") or time.monotonic() - began > alerting.ANSWERED / 2:
            with self.lock:
                self.lost.append(told)


class Process:
    """One of three that run and tell; its orders are answered as they end."""

    def __init__(self, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "tests.faults.alerting"]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.numbers, self.waiting, self.lock = count(), dict[int, Future[Any]](), threading.Lock()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def run(self, row: str, incident: int, *, fail: bool | str) -> Future[Any]:
        with self.lock:
            number: int = next(self.numbers)
            answer = self.waiting[number] = Future()
            assert self.process.stdin is not None
            order = {"order": number, "row": row, "incident": incident, "fail": fail}
            self.process.stdin.write(json.dumps(order) + "\n")
        return answer

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answer = json.loads(line)
            self.waiting.pop(answer["order"]).set_result(answer)

    def end(self) -> None:
        """Waits for what is still being told."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


def told_at(room: Room, monitor: Monitor) -> dict[str, str]:
    """The environment of a process."""
    return clean_environment(
        DATABASE_URL=room.dsn,
        CRONLEASE_ALERT_URL=monitor.url("/hook-0123456789"),
        no_proxy="127.0.0.1",
        PYTHONPATH=os.pathsep.join(sys.path),
    )


@contextmanager
def impatience(room: Room) -> Iterator[None]:
    """What could not be delivered is tried again at once: no test waits for a backoff. What is being delivered is
    left alone."""
    over = threading.Event()

    def hurry() -> None:
        with psycopg.connect(room.dsn, autocommit=True) as conn:
            while not over.wait(0.05):
                conn.execute("update refresh_alerts set held_until = null where held_by is null and tries > 0")

    thread = threading.Thread(target=hurry)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.timeout(1800)
def test_an_incident_is_alerted_once(room: Room, profile: Profile) -> None:
    incidents, source = profile.n("P36"), profile.random("P36")
    names = [f"row {number}" for number in range(ROWS)]
    for name in names:
        room.query(f"select schedule_action('{name}', 'work', p_every => '1h..2h')")
    with monitoring() as monitor, ExitStack() as stack:
        webhook = Webhook(monitor, source)
        processes = [Process(told_at(room, monitor)) for _ in range(3)]
        stack.enter_context(impatience(room))
        seeds = {name: source.random() for name in names}
        shares = {name: range(place, incidents, ROWS) for place, name in enumerate(names)}

        def play(name: str) -> None:
            dice = random.Random(seeds[name])
            for incident in shares[name]:
                # All at once, and again: each end of a run is a chance to tell it twice.
                for _ in range(dice.choice([1, 2])):
                    hits = [process.run(name, incident, fail=True) for process in processes]
                    ends = [hit.result(60).get("status") for hit in hits]
                    assert set(ends) >= {"failed"} >= set(ends) - {None}, ends
                assert dice.choice(processes).run(name, incident, fail=False).result(60)["status"] == "success"

        with ThreadPoolExecutor(ROWS) as pool:
            list(pool.map(play, names))

        def all_told() -> bool:
            processes[0].run(names[0], -1, fail=False).result(60)
            return room.query("select count(*) from refresh_alerts") == [(0,)]

        wait_until(all_told, 300)
        for process in processes:
            process.end()
    repeats = check(webhook, shares)
    profile.record("P36", incidents, incidents, repeats=repeats, lost=len(webhook.lost), **webhook.seen)


def check(webhook: Webhook, shares: dict[str, range]) -> int:
    """Each row's incidents were told in order, and what came again had been lost; how often that was."""
    repeats = 0
    lost: dict[str, list[str]] = defaultdict(list)
    for name, told in webhook.lost:
        lost[name].append(told)
    for name, incidents in shares.items():
        expected = [told for incident in incidents for told in (str(incident), "well again")]
        heard = [told for row, told in webhook.heard if row == name]
        once: list[str] = []
        for told in heard:
            if once and told == once[-1]:
                repeats += 1
                assert told in lost[name], f"{name}: {told} was told again, and its answer was not lost"
                lost[name].remove(told)
            else:
                once.append(told)
        assert once == expected, f"{name}: {heard}"
    return repeats


@pytest.mark.thorough
def test_a_job_that_kills_its_process_each_time_is_alerted_once(room: Room) -> None:
    """By the run that finds it so, before it is killed itself."""
    room.query("select schedule_action('row 0', 'work', p_every => '1h..2h')")
    with monitoring() as monitor:
        for _ in range(3):
            process = Process(told_at(room, monitor))
            process.run("row 0", 0, fail="kill")
            assert process.process.wait(30) == -signal.SIGKILL
            process.end()
            room.query("update refresh_schedule set locked_until = clock_timestamp() - interval '1 s'")
        process = Process(told_at(room, monitor))
        assert process.run("row 0", 0, fail=False).result(30)["status"] == "success"
        process.end()
        texts = [json.loads(each.body)["text"] for each in monitor.asked]
    assert [text.partition(",")[0].partition(". ")[0] for text in texts] == [
        "row 0 was abandoned",
        "row 0 is well again",
    ]
