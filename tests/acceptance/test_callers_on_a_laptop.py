"""CRONLEASE_AUTH is unset: a person on this machine may do everything, a web page may only hit what is due."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.acceptance.conftest import JOBS, Serve, Served, answers, clean_environment, free_port, kill
from tests.faults.profile import thorough
from tests.integration.conftest import Room, wait_until

# What a browser sends for fetch(url, {method: "POST", mode: "no-cors", body: ...}) on a page of somebody else.
CROSS_SITE = {
    "Origin": "https://evil.example",
    "Sec-Fetch-Site": "cross-site",
    "Sec-Fetch-Mode": "no-cors",
    "Content-Type": "text/plain;charset=UTF-8",
}
FOREIGN = {
    "a web page": CROSS_SITE,
    "an old browser": {"Origin": "https://evil.example"},
    "a page in a sandbox": {"Origin": "null"},
    "an image on a page": {"Sec-Fetch-Site": "cross-site"},
    "a rebound name": {"Host": "evil.example:8080", "Sec-Fetch-Site": "same-origin"},
    "this machine by its name on the network": {"Host": "laptop.lan:8080"},
    "a proxy": {"X-Forwarded-For": "127.0.0.1"},
    "a proxy of ours": {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"},
    "another proxy": {"Forwarded": "for=127.0.0.1"},
    "a tunnel": {"X-Real-IP": "127.0.0.1"},
}


@pytest.fixture
def room(dsn: str) -> Room:
    room = Room(dsn)
    room.query("create table effect (request_id uuid)")
    return room


@pytest.fixture(params=["functions-framework", thorough("uvicorn")])
def served(request: pytest.FixtureRequest, serve: Serve, room: Room, tmp_path: Path) -> Iterator[Served]:
    """Both servers trust a proxy on this machine by default; the second one trusts everybody."""
    if request.param == "functions-framework":
        yield serve(room.dsn)
        return
    (tmp_path / "app.py").write_text(
        f"from functions_framework.aio import create_asgi_app\napp = create_asgi_app('tick', {str(JOBS)!r})\n"
    )
    port, log = free_port(), tmp_path / "log"
    where = ["--app-dir", str(tmp_path), "--port", str(port), "--forwarded-allow-ips", "*"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "app:app", *where],
            env=clean_environment(DATABASE_URL=room.dsn),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        served = Served(f"http://127.0.0.1:{port}", process, log)
        wait_until(lambda: answers(served), 30)
        yield served
    finally:
        kill(process)


def test_only_a_person_on_this_machine_may_do_everything(served: Served, room: Room) -> None:
    port = urlsplit(served.url).port
    for kind, headers in FOREIGN.items():
        for body in ('{"force": true}', '{"args": {"sleep": 0}}'):
            answer = served.hit(content=body, headers=headers)
            assert (answer.status_code, answer.json()["reason"]) == (403, "forbidden"), kind
        answer = served.hit("/status", method="GET", headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (403, "forbidden"), kind
        assert "http://localhost" in answer.json()["error"]
        assert "CRONLEASE_AUTH=token" in answer.json()["error"]
    assert room.runs() == []
    assert served.hit(headers=CROSS_SITE).json()["status"] == "success", "what is due anybody may hit, as with none"
    assert served.hit("/run-due", headers=CROSS_SITE).status_code == 200
    page = f"http://localhost:{port}"
    for headers in ({}, {"Host": f"localhost:{port}"}, {"Origin": page, "Sec-Fetch-Site": "same-origin"}):
        assert served.hit(json={"force": True, "args": {"sleep": 0}}, headers=headers).json()["status"] == "success"
    (first, *_) = served.hit("/status", method="GET").json()["runs"]
    assert first["args"] == {"sleep": 0}
