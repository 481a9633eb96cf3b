"""Other clouds' triggers at the whole HTTP trigger, on a real database: who is let in, and what is answered."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

import cronlease
from cronlease import registry
from cronlease.process.shutdown import process
from cronlease.triggers.asgi import App
from tests.acceptance import jobs
from tests.integration.conftest import Room
from tests.unit.test_hits import PUSH

SECRET = "a-secret-of-vercel-cron"
TOKEN = "a-token-of-somebody-else"
VERCEL = {"User-Agent": "vercel-cron/1.0"}
Send = Callable[..., httpx2.Response]


@cronlease.scheduled(every="hit")
async def whenever(run: cronlease.Run) -> None:
    """Its trigger owns its schedule: each delivery is run, and none twice."""
    if run.args.get("fail"):
        raise ValueError("no luck")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def room(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setenv("DATABASE_URL", dsn)
    # The signals belong to the test runner.
    monkeypatch.setattr(process, "listen", lambda *_: None)
    functions: list[Any] = [jobs.tick, jobs.tock, jobs.tell, whenever]
    for function in functions:
        registry.register(function.job)
    room = Room(dsn)
    room.query("create table effect (request_id uuid)")
    return room


@pytest.fixture
def send(room: Room) -> Send:
    """Sends one request to an app with the settings of that moment."""

    def request(method: str, path: str = "/", *, app: App | None = None, **more: Any) -> httpx2.Response:
        async def once() -> httpx2.Response:
            served = app or cronlease.asgi(jobs.tick)
            transport: Any = httpx2.ASGITransport(served)
            try:
                async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                    return await client.request(method, path, **more)
            finally:
                await served.close()

        return asyncio.run(once())

    return request


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONLEASE_AUTH", "token")
    monkeypatch.setenv("CRONLEASE_TOKEN", TOKEN)
    monkeypatch.setenv("CRON_SECRET", SECRET)


@pytest.mark.usefixtures("checked")
def test_vercel_s_get_runs_with_its_secret_and_nobody_else_s_does(send: Send, room: Room) -> None:
    assert send("GET", headers=VERCEL).status_code == 401
    assert send("GET", headers={**VERCEL, **bearer(SECRET + "x")}).status_code == 401
    # The secret alone makes no GET one that starts something: a person's browser or a crawler sends GETs.
    assert send("GET", headers=bearer(SECRET)).status_code == 405
    assert room.query("select 1 from refresh_schedule") == []
    ran = send("GET", headers={**VERCEL, **bearer(SECRET)})
    assert (ran.status_code, ran.json()["status"]) == (200, "success")
    by_path = send("GET", "/tick", headers={"x-vercel-cron-schedule": "0 5 * * *", **bearer(SECRET)})
    assert by_path.json()["reason"] == "not_due"
    # It is one of the tokens, for a POST too.
    assert send("POST", headers=bearer(SECRET), json={"force": True}).json()["status"] == "success"
    assert send("GET", "/run-due", headers={**VERCEL, **bearer(SECRET)}).status_code == 405
    assert room.query("select trigger from refresh_runs order by fence") == [("vercel",), ("manual",)]


@pytest.mark.parametrize("auth", [None, "none", "iam"])
def test_where_no_token_is_checked_a_get_starts_nothing(
    send: Send, room: Room, monkeypatch: pytest.MonkeyPatch, auth: str | None
) -> None:
    if auth is not None:
        monkeypatch.setenv("CRONLEASE_AUTH", auth)
    monkeypatch.setenv("CRON_SECRET", SECRET)
    assert send("GET", headers={**VERCEL, **bearer(SECRET)}).status_code == 405
    assert room.query("select 1 from refresh_schedule") == []


def test_a_short_cron_secret_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONLEASE_AUTH", "token")
    monkeypatch.setenv("CRON_SECRET", "short")
    with pytest.raises(SystemExit, match="CRON_SECRET"):
        cronlease.asgi(jobs.tick)


@pytest.mark.usefixtures("checked")
def test_a_push_runs_with_its_args_and_a_skip_acknowledges_it(send: Send, room: Room) -> None:
    ran = send("POST", headers=bearer(TOKEN), json=PUSH)
    assert (ran.status_code, ran.json()["status"]) == (200, "success")
    again = send("POST", headers=bearer(TOKEN), json=PUSH)
    assert (again.status_code, again.json()["reason"]) == (200, "not_due")
    assert room.query("select trigger, job_name, args from refresh_runs") == [
        ("pubsub", PUSH["subscription"], {"shop": 7})
    ]


def test_a_delivery_that_succeeded_is_a_duplicate_whichever_trigger_repeats_it(send: Send, room: Room) -> None:
    def hit(**request: Any) -> str:
        body = send("POST", app=cronlease.asgi(whenever), **request).json()
        return str(body["reason"] or body["status"])

    slot = {
        "X-CloudScheduler": "true",
        "X-CloudScheduler-JobName": "refresh",
        "X-CloudScheduler-ScheduleTime": "2026-01-16T12:00:00Z",
    }
    for request, other in (
        ({"json": PUSH}, {"json": {"message": {"messageId": "2"}, "subscription": "s"}}),
        ({"headers": slot}, {"headers": {**slot, "X-CloudScheduler-ScheduleTime": "2026-01-16T13:00:00Z"}}),
        ({"headers": {"X-Cronlease-Delivery": "a"}}, {"headers": {"X-Cronlease-Delivery": "b"}}),
    ):
        assert [hit(**request), hit(**request), hit(**other)] == ["success", "duplicate", "success"]
    # A hit without a name runs each time, and so does a delivery that failed.
    assert [hit(), hit()] == ["success", "success"]
    named = {"headers": {"X-Cronlease-Delivery": "c"}}
    assert hit(json={"args": {"fail": True}}, **named) == "failed"
    assert [hit(**named), hit(**named)] == ["success", "duplicate"]
    told = [row[0] for row in room.query("select delivery from refresh_runs order by fence")]
    assert told[:3] == [PUSH["message"]["messageId"], "2", "refresh 2026-01-16T12:00:00.000000Z"]  # type: ignore[index]


def test_a_push_that_nobody_vouches_for_brings_no_args(
    send: Send, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRONLEASE_AUTH", "none")
    refused = send("POST", json=PUSH)
    assert (refused.status_code, "force and args" in refused.json()["error"]) == (403, True)
    assert send("POST", json={"message": {"messageId": "1"}}).json()["status"] == "success"


def test_an_app_of_no_functions_and_one_of_strangers_say_so(send: Send) -> None:
    with pytest.raises(TypeError, match="@scheduled has decorated"):
        cronlease.asgi(print)
    with pytest.raises(TypeError, match="@scheduled has decorated"):
        cronlease.aws_lambda(print)
    several = send("POST", app=cronlease.asgi(jobs.tick, jobs.tell))
    assert (several.status_code, "several functions are served here" in several.json()["error"]) == (404, True)
    assert send("POST", "/tock").status_code == 404


def test_a_lifespan_starts_and_ends_and_may_start_again(room: Room) -> None:
    """As a server calls it; meanwhile a run goes on, and is given its time."""
    app = cronlease.asgi(jobs.tell)

    async def live() -> list[str]:
        said: list[str] = []
        events: asyncio.Queue[dict[str, str]] = asyncio.Queue()

        async def send(message: dict[str, str]) -> None:
            said.append(message["type"])

        life = asyncio.ensure_future(app({"type": "lifespan"}, events.get, send))
        await events.put({"type": "lifespan.startup"})
        transport: Any = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            hit = await client.post("/", json={"force": True})
            assert hit.json()["status"] == "success"
        await events.put({"type": "lifespan.shutdown"})
        await life
        return said

    for _ in range(2):
        assert asyncio.run(live()) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert not process.draining
