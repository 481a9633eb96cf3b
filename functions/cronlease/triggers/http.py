"""The HTTP trigger: path, method, caller, spawn guard and body are checked, then the run is started.

Every answer is JSON and carries the request ID. Connections are opened at the first hit, in the worker that will use
them.
"""

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from starlette.requests import Request
from starlette.responses import Response

from cronlease import registry
from cronlease.db.connection import Database, within
from cronlease.db.functions import read_refresh_status
from cronlease.errors import DatabaseTrouble, Unreachable
from cronlease.job import Job
from cronlease.observe import logs, telemetry
from cronlease.outcome import Outcome, SkipReason
from cronlease.process import spawn_guard
from cronlease.process.shutdown import process
from cronlease.run.attempt import log_unreadable, skip_unasked
from cronlease.run.execution import run_once
from cronlease.settings import Settings
from cronlease.triggers import serving
from cronlease.triggers.auth import check_hit, check_status, guard, is_checked
from cronlease.triggers.request import Refused, read_hit

if TYPE_CHECKING:
    from cronlease.embedded.server import EmbeddedPostgres
    from cronlease.triggers.dispatch import Report

_SPAWNED = spawn_guard.HEADER.lower().encode()

_ROUTES = {
    "/": ("POST",),
    "/run-due": ("POST",),
    "/health/live": ("GET", "HEAD"),
    "/health/ready": ("GET", "HEAD"),
    "/status": ("GET",),
}


class HttpTrigger:
    """One job behind HTTP."""

    def __init__(self, job: Job, settings: Settings) -> None:
        self._job = job
        self._settings = settings
        self._admit = guard(settings)
        self._database: Database | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._embedded: EmbeddedPostgres | None = None
        self._said_served = False

    def say_served(self, address: str) -> None:
        """Says once what this process serves: at its start where that can be known, else at the first request."""
        logs.configure(self._settings.log_level)
        self._said_served = True
        serving.say(self._job.name, self._settings, address)

    async def answer(self, request: Request) -> Response:
        """Never raises: whatever happens, the caller gets one JSON sentence and the log gets the rest."""
        logs.configure(self._settings.log_level)
        process.hook(self._settings.drain_seconds, self._settings.announce_seconds)
        logs.headers.set(request.scope["headers"])
        request_id = uuid4()
        try:
            if not self._said_served:
                host, port = request.scope.get("server") or ("", None)
                self.say_served(f"http://{host}:{port}" if port else str(host))
            return await self._route(request, request_id)
        except Refused as refused:
            _say_refused(request, request_id, refused)
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
            how = f"use: curl -X POST <url>{path[1:]}" if "POST" in allowed else f"use: curl <url>{path[1:]}"
            sentence = f"{request.method} is not for this path, {how}"
            raise Refused(405, "method_not_allowed", sentence, headers={"Allow": ", ".join(allowed)})
        if self._admit is not None and not path.startswith("/health/"):
            await self._admit(request.scope["headers"])
        if path == "/":
            with process.work():
                outcome = await self._hit(request, request_id)
            return _json(outcome.as_json(), request_id, outcome.http_status)
        if path == "/run-due":
            with process.work():
                report = await self._run_due(request)
            return _json(report.as_json(), request_id, report.http_status)
        if path == "/status":
            return await self._status(request, request_id)
        if path == "/health/live":
            return _json({"live": True}, request_id)
        if process.draining:
            return _json({"ready": False, "reason": SkipReason.SHUTTING_DOWN}, request_id, 503)
        return _json({"ready": True}, request_id)

    async def _hit(self, request: Request, request_id: UUID) -> Outcome:
        if (reason := _reason_to_skip(request)) is not None:
            return skip_unasked(self._job.name, request_id, reason)
        hit = await read_hit(request)
        check_hit(self._settings, request.scope, hit)
        try:
            database = self._connected()
        except Unreachable as trouble:
            log_unreadable(self._job.name, request_id, str(trouble))
            reason = SkipReason.SCHEDULE_READ_ERROR
            return telemetry.skipped(Outcome(self._job.name, request_id, skipped=reason, hint=str(trouble)))
        return await run_once(self._job, hit, database, self._settings, request_id=request_id, jobs=registry.jobs())

    async def _run_due(self, request: Request) -> "Report":
        from cronlease.triggers.dispatch import Dispatcher, Report

        if (reason := _reason_to_skip(request)) is not None:
            return Report(reason=reason)
        hit = await read_hit(request)
        if hit.force or hit.args:
            raise Refused(400, "bad_request", "run-due takes no force and no args: it runs what is due, as it is")
        try:
            database = self._connected()
        except Unreachable as trouble:
            log_unreadable("run-due", uuid4(), str(trouble))
            return Report(reason=SkipReason.SCHEDULE_READ_ERROR)
        return await Dispatcher(registry.jobs(), database, self._settings).run_due()

    async def _status(self, request: Request, request_id: UUID) -> Response:
        check_status(self._settings, request.scope)
        # Args may be anybody's secret.
        with_args = is_checked(self._settings, request.scope)
        limit = self._job.limits.acquire
        try:
            found = await within(limit, self._connected().ask(read_refresh_status(args=with_args)))
        except (DatabaseTrouble, TimeoutError) as trouble:
            logs.log(logging.ERROR, f"The status could not be read: {trouble}", action="status_failed")
            raise Refused(503, "schedule_read_error", "the schedule cannot be read: the log says why") from None
        return _json({"ok": True, **found}, request_id)

    def move(self, settings: Settings) -> None:
        """From now on with these settings: for tests, whose database is not there when a function is declared."""
        self._settings, self._database, self._admit = settings, None, guard(settings)
        self._said_served = True

    async def close(self) -> None:
        if self._database is not None:
            await self._database.close()

    def _connected(self) -> Database:
        """The database of this worker; opened here because the module is imported before the worker is forked."""
        loop = asyncio.get_running_loop()
        gone = self._embedded is not None and not self._embedded.running
        if self._database is None or self._loop is not loop or gone:
            self._database = Database(self._database_url(), pooler=self._settings.pooler)
            self._loop = loop
            process.close_at_the_end(self._database.close)
        return self._database

    def _database_url(self) -> str:
        """What is configured, or the embedded server of a person's own machine, started or joined."""
        if self._settings.has_database:
            return self._settings.database_url or ""
        from cronlease.embedded.server import EmbeddedPostgres, EmbeddedPostgresError, default_data_dir

        try:
            self._embedded = EmbeddedPostgres.start(default_data_dir() / "postgres")
        except EmbeddedPostgresError as error:
            raise Unreachable(str(error)) from None
        return self._embedded.dsn


def _say_refused(request: Request, request_id: UUID, refused: Refused) -> None:
    """A scheduler whose token is old is to be seen from here, too; what was sent is not repeated."""
    status = refused.http_status
    if status not in (404, 405):
        logs.log(
            logging.INFO,
            f"Refused a caller with {status}: {refused}",
            action="hit_refused",
            reason=refused.reason,
            path=request.scope["path"],
            request_id=str(request_id),
        )


def _reason_to_skip(request: Request) -> SkipReason | None:
    """Why a hit is not even looked at."""
    if process.draining:
        return SkipReason.SHUTTING_DOWN
    marks = (value.decode("latin-1") for name, value in request.scope["headers"] if name == _SPAWNED)
    if spawn_guard.is_spawned() or any(map(spawn_guard.is_marked, marks)):
        return SkipReason.SPAWNED
    return None


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
