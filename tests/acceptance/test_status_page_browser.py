"""The status page in a real Chromium: it shows what the database says, its forms work, and texts are only texts."""

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.acceptance.conftest import Serve, Served
from tests.acceptance.test_status_page import TOKEN, operations
from tests.integration.conftest import Room, wait_until
from tests.require import need, need_package

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(120)]

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
# A loaded machine is slow, and what is not there in so many milliseconds is not there.
PATIENCE = 30_000
EVIL = (
    "<script>window.hurt = 1</script>",
    '"><img src=x onerror="window.hurt = 1">',
    "' onmouseover='window.hurt = 1",
    "</style></title></script><script>window.hurt = 1</script>",
    "javascript:window.hurt = 1",
    "{{ 7 * 7 }}{% raw %}",
    "<svg/onload=window.hurt=1>",
    "../../a/b",
    "a?b=c#d",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    need_package("playwright")
    need_package("axe_playwright_python")
    program = need("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS), timeout=PATIENCE)
        yield browser
        browser.close()


@contextmanager
def page_of(browser: "Browser", **how: Any) -> Iterator["Page"]:
    """A window of its own in Berlin; fails when the page breaks its own policy or throws."""
    context = browser.new_context(timezone_id="Europe/Berlin", locale="en-GB", **how)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    troubles: list[str] = []

    def hear(message: "ConsoleMessage") -> None:
        if message.type == "error":
            troubles.append(message.text)

    def dismiss(dialog: "Dialog") -> None:
        troubles.append(dialog.message)
        dialog.dismiss()

    page.on("console", hear)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", dismiss)
    yield page
    context.close()
    # The status of a page that is refused is an error of the network, not of the page.
    assert [trouble for trouble in troubles if "Failed to load resource" not in trouble] == []


def assert_accessible(page: "Page") -> None:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    serious = [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]
    assert serious == []


def seed(room: Room) -> None:
    """A schedule in each health, with runs."""
    for name in ("tell", "fails", "late", "runs", "paused", "done"):
        room.query(f"select ensure_schedule('{name}')")
        room.query(
            f"""
            insert into refresh_runs
              (request_id, function_name, action, fence, trigger, started_at, finished_at, status, error, fetched)
            select gen_random_uuid(), '{name}', '{name}', i, 'test', t.at, t.at + i * interval '1 s',
              case when i = 3 then 'failed' else 'success' end, case when i = 3 then 'failed: no feed' end, 12
            from generate_series(1, 5) i, lateral (select clock_timestamp() - interval '1 hour' as at) t
            """
        )
        room.query(f"update refresh_schedule set fence = 5, action = 'tell' where function_name = '{name}'")
    ahead = "clock_timestamp() + interval '90 min'"
    for name, changes in {
        "tell": f"next_run_at = {ahead}, last_status = 'success', last_run_at = clock_timestamp()",
        "fails": f"next_run_at = {ahead}, last_status = 'failed', last_error = 'failed: no feed', failures = 3",
        "late": "next_run_at = clock_timestamp() - interval '1 h', late_at = clock_timestamp()",
        "paused": "paused_at = clock_timestamp(), paused_reason = 'the feed is down'",
        "done": "once = true, completed_at = clock_timestamp()",
    }.items():
        room.query(f"update refresh_schedule set {changes} where function_name = '{name}'")
    room.query("select acquire_refresh_lock('runs', gen_random_uuid())")


@pytest.fixture
def served(serve: Serve, dsn: str) -> Served:
    return serve(dsn, target="tell")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
def test_what_is_shown_is_what_the_database_says(
    chromium: "Browser", served: Served, room: Room, scheme: str, width: int
) -> None:
    seed(room)
    how: dict[str, Any] = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    with page_of(chromium, **how) as page:
        page.goto(f"{served.url}/status")
        names, badges = (page.locator(f"tbody {each}").all_inner_texts() for each in ("a", ".badge"))
        assert names == ["fails", "late", "runs", "tell", "paused", "done"]
        assert badges == ["failing", "late", "running", "ok", "paused", "completed"]
        ((at,),) = room.query(
            "select to_char(next_run_at at time zone 'Europe/Berlin', 'HH24:MI:SS') from refresh_schedule"
            " where function_name = 'tell'"
        )
        row = page.locator("tr", has=page.get_by_role("link", name="tell")).inner_text()
        assert at in row, "the viewer's zone"
        assert re.search(r"in 1h2\dm", row), row
        alternative = page.get_by_role("img").first.get_attribute("aria-label")
        assert alternative == "The last 5 runs: 4 succeeded, 1 failed; the last took 5.0s, the longest 5.0s"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
        assert_accessible(page)

        page.get_by_role("link", name="failing").click()
        assert page.locator("tbody a").all_inner_texts() == ["fails"]
        page.get_by_role("link", name="fails").click()
        assert "the backoff after failing 3 times in a row" in page.locator(".lead").inner_text()
        assert page.locator(".runs tbody .status").count() == 5
        assert page.locator(".runs pre").inner_text() == "no feed"
        assert "median 3.0s" in page.locator(".legend").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
        assert_accessible(page)


def test_the_page_follows_the_database_and_its_forms_work_from_the_keyboard(
    chromium: "Browser", served: Served, room: Room
) -> None:
    seed(room)
    with page_of(chromium) as page:
        page.goto(f"{served.url}/status/tell")
        page.locator("summary", has_text="Pause").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.type("the feed is down")
        page.keyboard.press("Enter")
        page.get_by_text("It is paused. A run in progress may finish.").wait_for()
        assert room.query("select paused_reason from refresh_schedule where function_name = 'tell'") == [
            ("the feed is down",)
        ]
        # Nobody reloads it.
        room.query("select resume_refresh('tell')")
        page.get_by_role("button", name="Run now").wait_for()
        page.get_by_role("button", name="Run now").click()
        page.get_by_text("It ran: the newest run below says how.").wait_for()
        assert page.locator(".runs tbody tr").first.locator("td").nth(4).inner_text() == "page"
        room.query("select acquire_refresh_lock('tell', gen_random_uuid(), p_force => true)")
        page.locator("summary", has_text="Unlock").click()
        page.get_by_role("button", name="Break the lease").click()
        page.get_by_text("The lease is broken").wait_for()
    with page_of(chromium, java_script_enabled=False) as page:
        page.goto(f"{served.url}/status/tell")
        page.locator("summary", has_text="Pause").click()
        page.get_by_role("button", name="Pause").click()
        page.get_by_text("It is paused.").wait_for()
    assert [operation for operation, _, _ in operations(room)] == ["pause", "resume", "run", "unlock", "pause"]


def test_names_errors_and_reasons_are_text(chromium: "Browser", served: Served, room: Room) -> None:
    with psycopg.connect(room.dsn, autocommit=True) as conn:
        for name in EVIL:
            conn.execute("select ensure_schedule(%s)", [name])
            conn.execute("select pause_refresh(%s, %s, %s)", [name, name, name])
            conn.execute("update refresh_schedule set last_status = 'failed', last_error = %s", [name])
            conn.execute(
                "insert into refresh_runs (request_id, function_name, action, fence, trigger, status, error,"
                " started_at, finished_at) values (gen_random_uuid(), %(n)s, %(n)s, 1, %(n)s, 'failed', %(n)s,"
                " clock_timestamp(), clock_timestamp())",
                {"n": name},
            )
    with page_of(chromium) as page:
        page.goto(f"{served.url}/status")
        assert sorted(page.locator("tbody a").all_inner_texts()) == sorted(EVIL)
        addresses = page.locator("tbody a").evaluate_all("links => links.map(link => [link.innerText, link.href])")
        for name, address in addresses:
            page.goto(address)
            assert page.locator("h1").inner_text().removesuffix("paused").strip() == name
            assert page.locator(".runs pre").inner_text() == name
            assert page.title() == f"{name} · cronlease"
            page.hover("h1")
            assert page.evaluate("window.hurt === undefined"), name
        for name in EVIL:
            page.goto(f"{served.url}/status")
            page.get_by_label("Search by name").fill(name)
            page.get_by_role("button", name="Search").click()
            assert page.get_by_label("Search by name").input_value() == name
            assert name in page.locator("tbody a").all_inner_texts()
        assert page.evaluate("window.hurt === undefined")


@contextmanager
def page_of_somebody_else(target: str) -> Iterator[str]:
    """A web page on another port, with a form that aims at ours and sends itself."""
    fields = '<input name="operation" value="pause"><input name="form" value="x">'
    send = "<script>document.forms[0].submit()</script>"
    body = f'<form method="post" action="{target}">{fields}</form>{send}'.encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_person_signs_in_and_a_page_of_somebody_else_can_do_nothing(
    chromium: "Browser", serve: Serve, dsn: str, room: Room
) -> None:
    served = serve(dsn, target="tell", CRONLEASE_AUTH="token", CRONLEASE_TOKEN=TOKEN)
    seed(room)
    with page_of(chromium) as page:
        page.goto(f"{served.url}/status")
        assert_accessible(page)
        page.get_by_label("Token").fill("a guess")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("This token is not known here").wait_for()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="tell").wait_for()
        assert page.evaluate("document.cookie") == "", "no script sees them"
        page.goto(f"{served.url}/status/tell")
        # Another port of the same host is the same site: cookies go along, and still it is refused.
        with page_of_somebody_else(f"{served.url}/status/tell") as address:
            assert urlsplit(address).hostname == urlsplit(served.url).hostname
            page.goto(address)
            page.get_by_text("This form was not sent by this page").wait_for()
        page.goto(f"{served.url}/status")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Token").wait_for()
    wait_until(lambda: operations(room) == [])
    assert room.query("select paused_at from refresh_schedule where function_name = 'tell'") == [(None,)]
