"""The status page as a browser asks for it: what is shown, who may see it, and whose forms are taken."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from getpass import getuser
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.conftest import Serve, Served, free_port
from tests.acceptance.shell import Shell
from tests.integration.conftest import Room, wait_until

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
TOKEN = "a-secret-that-is-long-enough"


class Visitor:
    """A browser without scripts: keeps cookies, follows what a form leads to, and says where a form came from."""

    def __init__(self, url: str, **headers: str) -> None:
        self.url = url
        self.client = httpx2.Client(base_url=url, headers={**HTML, **headers}, trust_env=False, timeout=30)

    def get(self, path: str = "/status") -> httpx2.Response:
        return self.client.get(path)

    def see(self, path: str = "/status") -> str:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return unescape(answer.text)

    def post(self, path: str, headers: dict[str, str] | None = None, /, **fields: str) -> httpx2.Response:
        return self.client.post(path, data=fields, headers={"Origin": self.url, **(headers or {})})

    def form(self) -> str:
        text = self.client.cookies.get("cronlease_forms")
        assert text is not None
        return text

    def operate(self, name: str, operation: str, **fields: str) -> httpx2.Response:
        return self.post(f"/status/{name}", operation=operation, form=self.form(), **fields)

    def __enter__(self) -> "Visitor":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()


@pytest.fixture
def served(serve: Serve, dsn: str) -> Served:
    return serve(dsn, target="tell")


@pytest.fixture
def visitor(served: Served) -> Iterator[Visitor]:
    with Visitor(served.url) as visitor:
        yield visitor


def operations(room: Room) -> list[Any]:
    return room.query("select operation, actor, reason from refresh_operations order by id")


def test_a_person_sees_runs_and_operates_a_schedule(served: Served, visitor: Visitor, room: Room) -> None:
    assert "There are no schedules yet" in visitor.see()
    assert served.hit("/status", method="GET").json()["hint"].startswith("there are no schedules yet")
    served.hit()
    answer = visitor.get()
    policy = answer.headers["content-security-policy"]
    nonce = re.search(r"script-src 'nonce-([\w-]+)'", policy)
    assert nonce
    assert f'<script nonce="{nonce[1]}">' in answer.text
    assert "default-src 'none'" in policy
    assert nonce[1] not in visitor.get().text, "it is used once"
    assert answer.headers["cache-control"] == "no-store"
    assert 'aria-label="The last 1 run: 1 succeeded' in answer.text

    led_to = visitor.operate("tell", "pause", reason="the feed is down")
    assert (led_to.status_code, led_to.headers["location"]) == (303, "/status/tell?said=paused")
    page = visitor.see(led_to.headers["location"])
    assert "It is paused. A run in progress may finish." in page
    assert "It will not run: it was paused" in page
    assert ": the feed is down;" in page
    assert served.hit().json()["reason"] == "paused"
    assert visitor.operate("tell", "resume").headers["location"].endswith("said=resumed")
    assert visitor.operate("tell", "run").headers["location"].endswith("said=ran")
    assert visitor.operate("tell", "unlock").headers["location"].endswith("said=not_locked")
    who = f"{getuser()}@{socket.gethostname()}"
    assert operations(room) == [
        ("pause", who, "the feed is down"),
        ("resume", who, None),
        ("run", who, None),
    ]
    ((trigger,),) = room.query("select trigger from refresh_runs order by fence desc limit 1")
    assert trigger == "page"
    page = visitor.see("/status/tell?said=%3Cb%3Ehello")
    assert "hello" not in page, "only what a form of ours did is told"
    assert f"<b>{who}</b> · pause: the feed is down" in page
    explained = served.hit("/status/tell", method="GET").json()
    assert explained["sentences"][0] in page
    assert explained["schedule"]["function_name"] == "tell"


def test_only_the_lease_that_was_shown_is_broken(visitor: Visitor, room: Room) -> None:
    room.query("select ensure_schedule('tell')")
    visitor.see()
    first, second = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
    room.query(f"select acquire_refresh_lock('tell', '{first}')")
    page = visitor.see("/status/tell")
    assert f'name="holder" value="{first}"' in page
    assert "Run now" not in page
    assert visitor.operate("tell", "run").headers["location"].endswith("said=skipped_locked")
    room.query("update refresh_schedule set locked_until = clock_timestamp() - interval '1 s'")
    room.query(f"select acquire_refresh_lock('tell', '{second}')")
    assert visitor.operate("tell", "unlock", holder=first).headers["location"].endswith("said=held_by_another")
    assert visitor.operate("tell", "unlock", holder=second).headers["location"].endswith("said=unlocked")
    assert [operation for operation, _, _ in operations(room)] == ["unlock"]


REFUSED_FORMS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "without the text": ({"form": ""}, {}),
    "with another text": ({"form": "x" * 43}, {}),
    "of another site": ({}, {"Origin": "https://evil.example"}),
    "of another port": ({}, {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}),
    "of nowhere": ({}, {"Origin": "null"}),
    "through a proxy": ({}, {"X-Forwarded-For": "203.0.113.9"}),
}


def test_forms_of_others_are_refused_and_nothing_is_done(visitor: Visitor, room: Room) -> None:
    room.query("select ensure_schedule('tell')")
    visitor.see()
    for kind, (fields, headers) in REFUSED_FORMS.items():
        given = {"operation": "pause", "form": visitor.form(), **fields}
        answer = visitor.post("/status/tell", headers, **given)
        assert answer.status_code == 403, kind
        assert answer.headers["content-type"].startswith("text/html"), kind
    assert visitor.operate("tell", "explode").status_code == 400
    assert visitor.operate("nobody", "pause").status_code == 404
    assert visitor.post("/status", form=visitor.form()).status_code == 405
    assert operations(room) == []
    assert room.query("select paused_at from refresh_schedule") == [(None,)]
    with Visitor(visitor.url, **{"X-Forwarded-For": "203.0.113.9"}) as stranger:
        refused = stranger.get()
        assert refused.status_code == 403
        assert "the status is refused to unchecked callers" in unescape(refused.text).lower()


def test_with_a_token_a_person_signs_in(serve: Serve, dsn: str, room: Room) -> None:
    served = serve(dsn, target="tell", CRONLEASE_AUTH="token", CRONLEASE_TOKEN=TOKEN)
    served.hit(headers={"Authorization": f"Bearer {TOKEN}"})
    with Visitor(served.url) as visitor:
        asked = visitor.get()
        assert (asked.status_code, 'type="password"' in asked.text) == (401, True)
        assert "tell" not in asked.text.partition("<main")[2].partition("</main>")[0]
        assert served.hit("/status", method="GET").status_code == 401
        wrong = visitor.post("/status", sign="in", token="a guess")
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
        assert "This token is not known here" in wrong.text
        assert visitor.post("/status", {"Origin": "https://evil.example"}, sign="in", token=TOKEN).status_code == 403
        assert visitor.post("/status/tell", operation="pause", form=visitor.form()).status_code == 401

        signed = visitor.post("/status", {"X-Forwarded-Proto": "https"}, sign="in", token=TOKEN)
        assert (signed.status_code, signed.headers["location"]) == (303, "/status")
        (cookie,) = signed.headers.get_list("set-cookie")
        assert TOKEN not in cookie
        assert {"HttpOnly", "SameSite=Strict", "Path=/", "Secure"} <= set(cookie.split("; "))
        assert re.match(r"cronlease_signed_in=\d{10}\.[0-9a-f]{64};", cookie)
        assert 'action="/status/tell"' in visitor.get("/status/tell").text
        deep = visitor.post("/status/tell", {"X-Forwarded-Proto": "https"}, sign="in", token=TOKEN)
        assert (deep.status_code, deep.headers["location"]) == (303, "/status/tell")
        # The client would keep a Secure cookie to itself here.
        signed = visitor.post("/status", sign="in", token=TOKEN)
        assert "Secure" not in signed.headers["set-cookie"]

        assert "tell" in visitor.see()
        assert visitor.operate("tell", "pause").status_code == 303
        assert operations(room) == [("pause", "token", None)]
        assert visitor.post("/status", sign="out").status_code == 303
        assert visitor.get().status_code == 401
    assert TOKEN not in served.log_file.read_text()


@pytest.mark.thorough
def test_whoever_is_not_checked_sees_a_page_without_forms_where_that_is_allowed(serve: Serve, dsn: str) -> None:
    served = serve(dsn, target="tell", CRONLEASE_AUTH="none", CRONLEASE_ALLOW_FORCE="1")
    served.hit()
    with Visitor(served.url) as visitor:
        page = visitor.see("/status/tell")
        assert 'name="operation"' not in page
        assert visitor.operate("tell", "pause").status_code == 403
    closed = serve(dsn, target="tell", CRONLEASE_AUTH="none")
    with Visitor(closed.url) as visitor:
        assert visitor.get().status_code == 403


@pytest.mark.thorough
def test_behind_the_platform_the_record_has_the_address_of_the_person(serve: Serve, dsn: str, room: Room) -> None:
    served = serve(dsn, target="tell", CRONLEASE_AUTH="iam")
    served.hit()
    # Cloud Run has verified the token and taken its signature off.
    token = "e30." + "eyJlbWFpbCI6ImFubkBleGFtcGxlLm9yZyJ9" + ".SIGNATURE_REMOVED_BY_GOOGLE"
    with Visitor(served.url, Authorization=f"Bearer {token}") as visitor:
        visitor.see()
        assert visitor.operate("tell", "pause").status_code == 303
        assert [actor for _, actor, _ in operations(room)] == ["ann@example.org"]


def test_a_database_that_is_empty_or_down_is_a_page_with_a_sentence(serve: Serve, empty_dsn: str) -> None:
    served = serve(empty_dsn, target="tell", CRONLEASE_ACQUIRE_TIMEOUT="3s")
    with Visitor(served.url) as visitor:
        assert "There is nothing here yet: the first hit, or <code>cronlease migrate</code>" in visitor.see()
        assert visitor.get("/status/tell").status_code == 200
        answer = served.hit("/status", method="GET")
        assert (answer.status_code, answer.json()["schedules"]) == (200, [])
        assert answer.json()["hint"].startswith("there is nothing here yet")
        assert served.hit("/status/tell", method="GET").status_code == 404
    with Visitor(serve(f"postgresql://127.0.0.1:{free_port()}/gone", target="tell").url) as visitor:
        down = visitor.get()
        assert (down.status_code, "The schedule cannot be read" in down.text) == (503, True)
        assert "refused" in down.text, "the person at this machine reads why"


@pytest.fixture
def role(room: Room) -> Iterator[str]:
    """One that may read what the page shows, and nothing else."""
    name = f"reader_{uuid4().hex[:12]}"
    room.query(f"create role {name}")
    room.query(f"grant execute on function read_refresh_page, read_refresh_schedule to {name}")
    yield name
    room.query(f"drop owned by {name}")
    room.query(f"drop role {name}")


@pytest.mark.thorough
def test_a_role_that_may_not_do_it_says_so(serve: Serve, dsn: str, room: Room, role: str) -> None:
    room.query("select ensure_schedule('tell')")
    as_reader = make_conninfo(dsn, options=f"-c role={role}")
    served = serve(as_reader, target="tell")
    with Visitor(served.url) as visitor:
        assert "tell" in visitor.see()
        assert "It is due" in visitor.see("/status/tell"), "without the backends, which it may not see"
        refused = visitor.operate("tell", "pause")
        assert (refused.status_code, "permission denied for function pause_refresh" in refused.text.lower()) == (
            403,
            True,
        )
    assert operations(room) == []


def test_a_hit_imports_nothing_of_the_page() -> None:
    """Also a page of JSON does not."""
    code = (
        "import sys, asyncio, cronlease.triggers.http, cronlease.triggers.asgi, cronlease.triggers.status;"
        "print([name for name in sys.modules if name.startswith(('cronlease.page', 'cronlease.explain', 'jinja2'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.thorough
def test_ui_serves_the_page_of_a_database_on_loopback(dsn: str, tmp_path: Path, room: Room) -> None:
    room.query("select ensure_schedule('tell')")
    shell = Shell(dsn, tmp_path)
    shell.environment |= {"CRONLEASE_AUTH": "iam", "PYTHONUNBUFFERED": "1"}
    process = shell.start("ui", "--port", "0")
    try:
        assert process.stdout
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        with Visitor(found[0]) as visitor:
            page = visitor.see("/status/tell")
            assert "No function of this process is the action tell" in page
            assert visitor.operate("tell", "run").status_code == 409
            assert visitor.operate("tell", "pause").status_code == 303
            nothing = visitor.client.post("/", json={})
            assert (nothing.status_code, "/status shows the schedules" in nothing.json()["error"]) == (404, True)
            assert visitor.get("/").headers["location"] == "/status"
            port = found[0].rpartition(":")[2]
            assert shell("ui", "--port", port)[2].endswith("): pass --port N\n")
        with Visitor(found[0], Host="evil.example") as rebound:
            assert rebound.get().status_code == 403
    finally:
        process.terminate()
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, ""), (out, err)
    assert [operation for operation, _, _ in operations(room)] == ["pause"]


def test_ui_warns_of_a_database_that_is_down_and_starts_nevertheless(tmp_path: Path) -> None:
    shell = Shell("postgresql://me:opensesame@127.0.0.1:1/none", tmp_path)
    shell.environment |= {"PYTHONUNBUFFERED": "1"}
    process = shell.start("ui", "--port", "0")
    try:
        assert process.stdout
        assert process.stdout.readline().startswith("The status page is at http://127.0.0.1:")
    finally:
        process.terminate()
        _, err = process.communicate(timeout=30)
    assert err.startswith("Warning: "), err
    assert err.endswith(": check DATABASE_URL and that the server is up\n")
    assert (err.count("\n"), "opensesame" in err) == (1, False)


def test_the_verbs_of_the_command_line_record_who_did_what(dsn: str, tmp_path: Path, room: Room) -> None:
    shell = Shell(dsn, tmp_path)
    room.query("select schedule_action('greet', 'note')")
    shell.says_quickly("schedule", "pause", "greet", "--reason", "by hand")
    shell.says_quickly("schedule", "resume", "greet")
    shell.says("schedule", "run", "greet", "--force")
    room.query("select schedule_action('greet', 'note', p_replace => true)")
    room.query("select acquire_refresh_lock('greet', gen_random_uuid())")
    shell.says_quickly("schedule", "unlock", "greet", "--yes", "--reason", "it hangs")
    shell.says_quickly("schedule", "delete", "greet", "--yes")

    who = f"{getuser()}@{socket.gethostname()}"
    assert operations(room) == [
        ("pause", who, "by hand"),
        ("resume", who, None),
        ("run", who, None),
        ("unlock", who, "it hangs"),
        ("delete", who, None),
    ]


@pytest.mark.thorough
def test_the_verdict_of_an_emulator_is_on_the_page(serve: Serve, dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "verdict.json"
    served = serve(dsn, target="tell", CRONLEASE_EMULATOR_VERDICT=str(file))
    served.hit()
    with Visitor(served.url) as visitor:
        assert "verdict" not in visitor.see()
        file.write_text(json.dumps({"lines": ["  hits        3: 1 ran", "  violations  0"], "violations": 0}))
        wait_until(lambda: "hits        3: 1 ran" in visitor.see())
