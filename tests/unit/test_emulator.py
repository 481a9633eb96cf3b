"""The emulator's own parts: sample boards, Cloud Scheduler's request, the lines a person reads."""

import asyncio
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import httpx2
import pytest
from freezegun import freeze_time

from cronlease.cadence import Cadence, Every
from cronlease.cli.table import lines
from cronlease.embedded.filelock import FileLock
from cronlease.embedded.server import EmbeddedPostgres
from cronlease.emulator.chaos import Chaos, possible
from cronlease.emulator.chaos import check as check_faults
from cronlease.emulator.faults import CHAOS, Dice, Faults
from cronlease.emulator.function import EmulatorError, FunctionProcess, Log, claimed_port
from cronlease.emulator.jobs import Retry, TimedJob
from cronlease.emulator.scheduler import Clock, Hit, Scheduler, Sender, headers
from cronlease.emulator.show import Screen, hit_line
from cronlease.emulator.verdict import Verdict
from cronlease.process.emulated import CAPPED, Times
from cronlease.settings import load as load_settings
from cronlease.slots import Cron
from opening_signals.check import check
from opening_signals.samples.boards import samples
from opening_signals.samples.feeds import FEEDS, FeedServer
from opening_signals.samples.shapes import is_first_page
from opening_signals.settings import AT_ONCE
from opening_signals.sources_file import load
from tests.acceptance.conftest import client

MOMENT = datetime(2026, 11, 16, 9, 30, 5, tzinfo=UTC)


def test_a_board_depends_only_on_its_name_and_the_time() -> None:
    assert samples("acme", 31.0) == samples("acme", 31.0)
    assert samples("acme", 31.0) != samples("acme", 131.0)
    assert samples("acme", 31.0) != samples("globex", 31.0)


def test_openings_come_change_and_close_and_keep_their_numbers() -> None:
    came = changed = closed = 0
    for before, after in itertools.pairwise(range(0, 600, 3)):
        old = {opening.identity: opening for opening in samples("acme", before)}
        new = {opening.identity: opening for opening in samples("acme", after)}
        assert len(new) == len(samples("acme", after))
        came += len(new.keys() - old.keys())
        closed += len(old.keys() - new.keys())
        for identity in old.keys() & new.keys():
            assert new[identity].posted_at == old[identity].posted_at
            assert (new[identity].title != old[identity].title) == (new[identity] != old[identity])
            changed += new[identity] != old[identity]
    assert came > 50
    assert closed > 50
    assert changed > 40


def test_within_the_first_half_minute_each_kind_of_change_is_seen() -> None:
    start, later = (
        {(board, opening.identity): opening.title for board in FEEDS for opening in samples(board, at)}
        for at in (0.0, 30.0)
    )
    assert later.keys() - start.keys()
    assert start.keys() - later.keys()
    assert any(start[key] != later[key] for key in start.keys() & later.keys())


@pytest.fixture
def feeds() -> Iterator[FeedServer]:
    with FeedServer(latency=0) as server:
        server.start()
        yield server


def get(url: str, **request: Any) -> httpx2.Response:
    return client().get(url, **request)


def test_the_sources_file_begins_with_boards_in_greenhouses_shape(feeds: FeedServer, tmp_path: Path) -> None:
    feeds.write_sources(tmp_path / "sources.toml")
    sources = tomllib.loads((tmp_path / "sources.toml").read_text())["source"]
    assert [source["name"] for source in sources][:2] == ["acme", "globex"]
    assert all(source["allow_private"] is True for source in sources)
    assert len(sources) <= AT_ONCE, "one that waits for its turn would make the run take twice as long"
    for source in sources[:2]:
        assert source["kind"] == "greenhouse"
        answer = get(source["url"], params={"content": "true"}).json()
        assert answer["meta"] == {"total": len(answer["jobs"])}
        assert {"id", "title", "updated_at", "location", "absolute_url"} <= answer["jobs"][0].keys()


@pytest.mark.parametrize("name", FEEDS)
def test_every_item_of_every_sample_is_taken_by_its_kind(feeds: FeedServer, tmp_path: Path, name: str) -> None:
    feeds.write_sources(tmp_path / "sources.toml", (name,))
    (source,) = load(str(tmp_path / "sources.toml"))
    (found,) = asyncio.run(check([source]))
    assert (found.error, found.status, dict(found.rejected)) == (None, 200, {})
    assert found.items == 8
    assert (found.pages > 1) == (FEEDS[name].kind in ("lever", "teamtailor"))


@pytest.mark.parametrize("name", [name for name, feed in FEEDS.items() if feed.has_validators])
def test_a_feed_that_has_not_changed_is_not_sent_again(feeds: FeedServer, name: str) -> None:
    url = feeds.url + FEEDS[name].path
    again = get(url)
    for _ in range(10):
        tag = again.headers["ETag"]
        again = get(url, headers={"If-None-Match": tag})
        if again.status_code == 304:  # on a slow machine it may have changed in between
            break
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    assert get(url, headers={"If-None-Match": '"other"'}).status_code == 200


def test_only_the_first_page_takes_its_time() -> None:
    assert is_first_page({"limit": "5"})
    assert is_first_page({"limit": "5", "skip": "0"})
    assert is_first_page({"page": "1"})
    assert not is_first_page({"page": "2"})
    assert not is_first_page({"limit": "5", "skip": "5"})


@pytest.mark.parametrize("path", ["/", "/v1/boards/nobody/jobs", "/v1/boards/acme", "/v1/boards//jobs"])
def test_an_unknown_board_is_not_found(feeds: FeedServer, path: str) -> None:
    assert get(feeds.url + path).status_code == 404


def test_feeds_that_never_started_can_be_closed() -> None:
    with FeedServer(latency=0):
        pass


def test_the_schedule_time_is_utc_with_a_z() -> None:
    eastern = MOMENT.astimezone(timezone(timedelta(hours=-5)))
    assert headers(eastern, "tick")["X-CloudScheduler-ScheduleTime"] == "2026-11-16T09:30:05Z"


class Recorder(ThreadingHTTPServer):
    """Notes every POST; the first is answered only after the second has come."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Recording)
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        self.connections: set[Any] = set()
        self.second_came = threading.Event()


class Recording(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        assert isinstance(self.server, Recorder)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.path, dict(self.headers.items()), body))
        self.server.connections.add(self.client_address)
        if len(self.server.seen) > 1:
            self.server.second_came.set()
        status = 200 if self.server.second_came.wait(20) else 504
        content = json.dumps({"ok": True}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with Recorder() as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        yield server
        server.shutdown()
        serving.join()


def test_a_hit_does_not_wait_for_the_one_before_and_looks_like_cloud_schedulers(recorder: Recorder) -> None:
    hits: list[Hit] = []
    fourth_was_answered = threading.Event()

    def answered(hit: Hit) -> None:
        hits.append(hit)
        if len(hits) == 4:
            fourth_was_answered.set()

    sender = Sender(f"http://127.0.0.1:{recorder.server_port}/")
    job = TimedJob("tick", timedelta(seconds=0.02))
    scheduler = Scheduler(sender, job, clock=Clock(first=MOMENT), answered=answered)
    scheduler.start()
    assert fourth_was_answered.wait(30)
    scheduler.close(20)
    sender.close()
    path, sent, body = recorder.seen[0]
    assert (path, body) == ("/", b"")
    assert sent["User-Agent"] == "Google-Cloud-Scheduler"
    assert sent["X-CloudScheduler"] == "true"
    assert sent["X-CloudScheduler-ScheduleTime"] == "2026-11-16T09:30:05Z"
    assert sent["X-CloudScheduler-JobName"] == "projects/local/locations/emulator/jobs/tick"
    assert sent["Content-Type"] == "application/octet-stream"
    assert all(hit.status == 200 and hit.body == {"ok": True} for hit in hits)
    # None was kept for the next hit: the server may close such a one just as it is used.
    assert len(hits) == len(recorder.seen) == len(recorder.connections)


def hits_of(url: str, count: int, job: TimedJob, faults: Faults, speed: float = 1) -> list[Hit]:
    """What the scheduler reports of a job until there are so many."""
    hits: list[Hit] = []
    enough = threading.Event()

    def answered(hit: Hit) -> None:
        hits.append(hit)
        if len(hits) >= count:
            enough.set()

    sender = Sender(url)
    scheduler = Scheduler(sender, job, clock=Clock(speed), answered=answered, faults=faults)
    scheduler.start()
    assert enough.wait(20)
    scheduler.close(20)
    sender.close()
    return hits


def test_a_hit_that_nobody_answers_is_reported_and_retried_after_its_backoff() -> None:
    nobody = "http://127.0.0.1:1/"
    retry = Retry(count=2, min_backoff=5, max_doublings=1)
    began = time.monotonic()
    hits = hits_of(nobody, 3, TimedJob("tick", timedelta(hours=1), retry=retry), Faults(), speed=100)
    assert time.monotonic() - began >= 0.15, "5 s and 10 s, a hundred times as fast"
    assert all(hit.status is None for hit in hits)
    assert [hit.note for hit in hits] == ["", "retry 1", "retry 2"]
    assert "no       answer" in click.unstyle(hit_line(hits[0]))


def test_what_goes_wrong_on_the_way_is_asked_for(recorder: Recorder) -> None:
    recorder.second_came.set()
    url = f"http://127.0.0.1:{recorder.server_port}/"
    job = TimedJob("tick", timedelta(hours=1))
    once, again = hits_of(url, 2, job, Faults(duplicate=1))
    assert {once.note, again.note} == {"", "duplicate"}
    assert recorder.seen[0][1] == recorder.seen[1][1], "the same slot in both"
    (dropped,) = hits_of(url, 1, job, Faults(drop_response=1))
    assert (dropped.status, dropped.error) == (None, "the answer was dropped on purpose")
    assert len(recorder.seen) == 3, "it came nevertheless"


def test_an_attempt_is_given_up_at_its_deadline(recorder: Recorder) -> None:
    url = f"http://127.0.0.1:{recorder.server_port}/"
    job = TimedJob("tick", timedelta(hours=1), attempt_deadline=15, retry=Retry(count=1, min_backoff=1))
    late, in_time = hits_of(url, 2, job, Faults(), speed=100)
    # The first answer waits for the second hit, as a run that takes long would.
    assert (late.status, late.error) == (None, "the attempt deadline of 0.15 s has passed")
    assert (in_time.status, in_time.note) == (200, "retry 1")


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (
            200,
            {"ok": True, "skipped": False, "status": "success", "fetched": 3, "closed": None},
            "ok success fetched 3",
        ),
        (
            200,
            {"ok": True, "skipped": True, "reason": "locked", "locked_until": MOMENT.isoformat()},
            "skipped locked until",
        ),
        (
            200,
            {"ok": True, "skipped": True, "reason": "not_due", "next_run_at": MOMENT.isoformat()},
            "skipped not_due due at",
        ),
        (200, {"ok": True, "skipped": True, "reason": "paused"}, "skipped paused"),
        (
            500,
            {"ok": False, "skipped": False, "reason": "failed", "error": "no such host"},
            "not ok failed no such host",
        ),
        (502, {"error": "<html>"}, "not ok <html>"),
        (
            200,
            {"ok": True, "ran": [{"function": "tick", "status": "success"}], "failed": [], "reason": "shutting_down"},
            "ok run_due tick success, ended: shutting_down",
        ),
        (200, {"ok": True, "ran": [], "failed": [], "reason": None}, "ok run_due nothing was due"),
        (500, {"ok": False, "reason": "failed", "error": "one\nline"}, "not ok failed one line"),
    ],
)
def test_a_line_says_what_came_of_the_hit(status: int, body: dict[str, Any], words: str) -> None:
    line = click.unstyle(hit_line(Hit(4, MOMENT, 0.0123, status, body)))
    place = 0
    for word in [f"{MOMENT.astimezone():%H:%M:%S}", "#4", str(status), *words.split(" ")]:
        place = line.index(word, place) + len(word)
    assert "0.012 s" in line
    assert "\n" not in line


def test_a_database_that_is_not_ours_is_not_restarted() -> None:
    with pytest.raises(EmulatorError, match="only with an embedded PostgreSQL that this emulator started"):
        check_faults(CHAOS, None)
    check_faults(possible(CHAOS, None), None)
    assert possible(CHAOS, None).kill_every == CHAOS.kill_every


def test_frequent_faults_do_not_keep_out_the_others() -> None:
    dice = Dice()
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    function = cast("FunctionProcess", SimpleNamespace(workers=lambda: [worker.pid]))
    server = cast("EmbeddedPostgres", SimpleNamespace(owned=True, restart=lambda: None))
    faults = Faults(kill_every=1.0, sigterm_every=1.0, db_restart_every=1.0)
    try:
        with freeze_time(MOMENT) as clock:
            chaos = Chaos(faults, dice, function, server, "", lambda _: None)
            for _ in range(300):
                clock.tick(0.1)
                chaos.tick()
    finally:
        worker.kill()
        worker.wait()
    # One a second at most, and all three want more than that: each gets its share.
    assert dice.done.keys() == {"kill", "sigterm", "database restart"}
    assert min(dice.done.values()) >= 5


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("", "it printed nothing"),
        (
            "Traceback:\n  KeyError: 'x'\n[2026-11-16 09:30:05 +0000] [7] [INFO] Worker exiting (pid: 7)\n",
            "KeyError: 'x'",
        ),
        (
            "[2026-11-16 09:30:05 +0000] [7] [ERROR] Reason: Worker failed to boot.\n",
            "[2026-11-16 09:30:05 +0000] [7]",
        ),
    ],
)
def test_the_last_line_of_a_log_is_the_last_one_of_the_function_itself(tmp_path: Path, log: str, line: str) -> None:
    file = tmp_path / "log"
    file.write_text(log)
    assert Log(file).last_line().startswith(line)


def test_hits_that_come_every_so_often_overlap_when_they_are_told_to(recorder: Recorder) -> None:
    """The first answer waits for the second hit, which would come much later."""
    hourly = TimedJob("tick", timedelta(hours=1), attempt_deadline=1800)
    hits = hits_of(f"http://127.0.0.1:{recorder.server_port}/", 2, hourly, Faults(overlap=True), speed=600)
    assert [(hit.status, hit.note) for hit in sorted(hits[:2], key=lambda hit: hit.note)] == [
        (200, ""),
        (200, "overlap"),
    ]


def test_hits_of_a_schedule_overlap_when_they_are_told_to(recorder: Recorder) -> None:
    """The first answer waits for the second hit."""
    every_minute = TimedJob("tick", Cron.parse("* * * * *", "Etc/UTC"), attempt_deadline=1800)
    hits = hits_of(f"http://127.0.0.1:{recorder.server_port}/", 2, every_minute, Faults(overlap=True), speed=600)
    assert [hit.status for hit in hits[:2]] == [200, 200]


def test_a_line_is_cut_to_the_terminal_and_coloured() -> None:
    body = {"ok": False, "reason": "failed", "error": "no such host " * 20}
    line = hit_line(Hit(4, MOMENT, 0.0123, 500, body), 80)
    assert "\x1b[31mnot ok   failed" in line
    assert len(click.unstyle(line)) == 80
    assert click.unstyle(line).endswith("…")


def test_a_time_that_is_not_today_has_its_date() -> None:
    for days, shown in ((0, "09:30:05"), (1, "2026-11-17 09:30:05")):
        then = (MOMENT + timedelta(days=days)).isoformat()
        body = {"ok": True, "skipped": True, "reason": "not_due", "next_run_at": then}
        with freeze_time(MOMENT):
            assert f"due at {shown}" in click.unstyle(hit_line(Hit(4, MOMENT, 0.0123, 200, body)))


def test_hits_stand_under_their_heads_and_a_verdict_is_wrapped() -> None:
    said: list[str] = []
    screen = Screen(lambda line: said.append(click.unstyle(line)), lines, lambda: 66)
    for number in (1, 2):
        screen.hit(Hit(number, datetime.now(UTC), 0.0123, 200, {"ok": True, "status": "success", "fetched": 3}))
    screen.fault("kill: SIGKILL to worker 7 " * 4)
    head, first, second, fault = said
    for title, text in (("time", first[:2]), ("hit", "#1"), ("HTTP", "200"), ("outcome", "ok"), ("why", "success")):
        assert head.index(title) == first.index(text)
    assert head.index("details") == first.index("fetched")
    assert (second[10:12], len(fault)) == ("#2", 66)
    del said[:]
    faults = dict.fromkeys(["overlap", "dropped response", "duplicate", "late", "kill", "pause"], 10)
    screen.verdict(Verdict(9, 3, 0, {}, {"locked": 6}, {"success": 3}, faults, []))
    wrapped = "\n".join(said).splitlines()
    assert max(map(len, wrapped)) <= 66
    assert "".join(wrapped).count("pause 10") == 1


def test_a_program_gets_neither_heads_nor_colours() -> None:
    said: list[str] = []
    screen = Screen(said.append, lines, as_json=True)
    screen.hit(Hit(1, MOMENT, 0.0123, 200, {"ok": True}))
    screen.fault("kill")
    screen.verdict(Verdict(1, 1, 0, {}, {}, {"success": 1}, {}, []))
    assert [next(iter(json.loads(line))) for line in said] == ["hit", "fault", "verdict"]
    assert json.loads(said[-1])["verdict"]["too_few"].startswith("only 1 real run")


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (CAPPED, "every 1s..3s, lease 3s, backoff 2s..4s"),
        ("60", "every 0.016s..10s, lease 5s, backoff 20s..40s"),
        ("100000", "every 0s..0.006s, lease 1s, backoff 0.012s..0.024s"),
    ],
)
def test_what_a_decorator_says_is_shortened(how: str, expected: str) -> None:
    env = {"CRONLEASE_LEASE": "3s", "CRONLEASE_EVERY": "2s..3s", "CRONLEASE_BACKOFF": "2s..4s"}
    declared = Times(timedelta(minutes=5), Cadence.parse("1s..10m"), Every.parse("20m..40m"))
    assert str(declared.shortened(how, load_settings(env))) == expected
    # What is left to the environment stays there.
    assert Times().shortened(how, load_settings(env)) == Times()


def test_a_port_is_claimed_by_one_emulator_and_no_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in range(2):
        with claimed_port(0), pytest.raises(EmulatorError, match="another emulator"), claimed_port(0):
            pass
        assert list(tmp_path.iterdir()) == []


def test_a_lock_on_a_deleted_file_claims_no_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    take = FileLock.take

    def late(path: Path) -> FileLock | None:
        """Opens the file before its holder deletes it, and locks it after that."""
        lock = take(path)
        path.unlink()
        return lock

    monkeypatch.setattr(FileLock, "take", late)
    with pytest.raises(EmulatorError, match="another emulator"), claimed_port(0):
        pass
