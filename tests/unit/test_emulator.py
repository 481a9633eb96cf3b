"""The emulator's own parts: sample boards, Cloud Scheduler's request, the lines a person reads."""

import itertools
import json
import threading
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from freezegun import freeze_time

from cronlease.emulator.feeds import BOARDS, FeedServer, openings
from cronlease.emulator.scheduler import Hit, Scheduler, headers
from cronlease.emulator.show import hit_line, table

MOMENT = datetime(2026, 11, 16, 9, 30, 5, tzinfo=UTC)


def test_a_board_depends_on_nothing_but_its_name_the_seed_and_the_time() -> None:
    assert openings("acme", 31.0, seed=7) == openings("acme", 31.0, seed=7)
    assert openings("acme", 31.0, seed=7) != openings("acme", 31.0, seed=8)
    assert openings("acme", 31.0) != openings("globex", 31.0)


def test_openings_come_change_and_close_and_keep_their_numbers() -> None:
    came = changed = closed = 0
    for before, after in itertools.pairwise(range(0, 600, 3)):
        old = {opening["id"]: opening for opening in openings("acme", before)}
        new = {opening["id"]: opening for opening in openings("acme", after)}
        assert len(new) == len(openings("acme", after))
        came += len(new.keys() - old.keys())
        closed += len(old.keys() - new.keys())
        for identity in old.keys() & new.keys():
            assert new[identity]["first_published"] == old[identity]["first_published"]
            assert (new[identity]["title"] != old[identity]["title"]) == (new[identity] != old[identity])
            changed += new[identity] != old[identity]
    assert came > 50
    assert closed > 50
    assert changed > 40


def test_within_the_first_half_minute_each_kind_of_change_is_seen() -> None:
    start, later = (
        {(board, opening["id"]): opening["title"] for board in BOARDS for opening in openings(board, at)}
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


def test_the_sources_file_leads_to_boards_in_greenhouses_shape(feeds: FeedServer, tmp_path: Path) -> None:
    feeds.write_sources(tmp_path / "sources.toml")
    sources = tomllib.loads((tmp_path / "sources.toml").read_text())["source"]
    assert [source["name"] for source in sources] == ["acme", "globex"]
    for source in sources:
        assert source["kind"] == "greenhouse"
        assert source["allow_private"] is True
        answer = httpx2.get(source["url"], params={"content": "true"}, trust_env=False).json()
        assert answer["meta"] == {"total": len(answer["jobs"])}
        assert {"id", "title", "updated_at", "location", "absolute_url"} <= answer["jobs"][0].keys()


@pytest.mark.parametrize("path", ["/", "/v1/boards/nobody/jobs", "/v1/boards/acme", "/v1/boards//jobs"])
def test_an_unknown_board_is_not_found(feeds: FeedServer, path: str) -> None:
    assert httpx2.get(feeds.url + path, trust_env=False).status_code == 404


def test_feeds_that_never_started_can_be_closed() -> None:
    with FeedServer(latency=0):
        pass


def test_the_schedule_time_is_utc_with_a_z() -> None:
    eastern = MOMENT.astimezone(timezone(timedelta(hours=-5)))
    assert headers(eastern)["X-CloudScheduler-ScheduleTime"] == "2026-11-16T09:30:05Z"


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


@freeze_time(MOMENT, ignore=["threading", "selectors", "queue"])
def test_a_hit_does_not_wait_for_the_one_before_and_looks_like_cloud_schedulers(recorder: Recorder) -> None:
    hits: list[Hit] = []
    fourth_was_answered = threading.Event()

    def answered(hit: Hit) -> None:
        hits.append(hit)
        if len(hits) == 4:
            fourth_was_answered.set()

    scheduler = Scheduler(f"http://127.0.0.1:{recorder.server_port}/", every=0.02, answered=answered)
    scheduler.start()
    assert fourth_was_answered.wait(30)
    scheduler.close(20)
    path, sent, body = recorder.seen[0]
    assert (path, body) == ("/", b"")
    assert sent["User-Agent"] == "Google-Cloud-Scheduler"
    assert sent["X-CloudScheduler"] == "true"
    assert sent["X-CloudScheduler-ScheduleTime"] == "2026-11-16T09:30:05Z"
    assert sent["X-CloudScheduler-JobName"].startswith("projects/")
    assert sent["Content-Type"] == "application/octet-stream"
    assert all(hit.status == 200 and hit.body == {"ok": True} for hit in hits)
    # None was kept for the next hit: the server may close such a one just as it is used.
    assert len(hits) == len(recorder.seen) == len(recorder.connections)


def test_a_hit_that_nobody_answers_is_reported() -> None:
    hits: list[Hit] = []
    came = threading.Event()

    def answered(hit: Hit) -> None:
        hits.append(hit)
        came.set()

    scheduler = Scheduler("http://127.0.0.1:1/", every=3600, answered=answered)
    scheduler.start()
    assert came.wait(20)
    scheduler.close(20)
    assert hits[0].status is None
    assert "no       answer" in hit_line(hits[0])


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
    ],
)
def test_a_line_says_what_came_of_the_hit(status: int, body: dict[str, Any], words: str) -> None:
    line = hit_line(Hit(4, MOMENT, 0.0123, status, body))
    place = 0
    for word in [f"{MOMENT.astimezone():%H:%M:%S}", "#4", str(status), *words.split(" ")]:
        place = line.index(word, place) + len(word)
    assert "0.012 s" in line
    assert "\n" not in line


def test_a_table_has_a_line_per_row_and_says_when_there_are_none() -> None:
    lines = table(["source", "at"], [["acme", MOMENT], ["a" * 40, None]]).splitlines()
    assert lines[0].split() == ["source", "at"]
    assert lines[2].split() == ["acme", f"{MOMENT.astimezone():%H:%M:%S}"]
    assert lines[3] == f"  {'a' * 31}…"
    assert table(["source"], []).endswith("(no rows)")
