"""The HTTP trigger: path, method, caller, spawn guard and body are checked, then the run is started.

It is the same for every server: it takes what ASGI gives, at any mount path. Every answer is JSON with the request
ID. Connections are opened at the first hit, in the worker that will use them.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from cronlease import registry
from cronlease.errors import Unreachable
from cronlease.job import Job
from cronlease.observe import logs, telemetry
from cronlease.outcome import Outcome, SkipReason
from cronlease.process.shutdown import process
from cronlease.run.attempt import log_unreadable, skip_unasked
from cronlease.run.execution import run_once
from cronlease.settings import Settings
from cronlease.triggers.answer import Answer, json_answer, log_refusal, outcome_answer
from cronlease.triggers.auth import check_hit, guard, is_admitted, is_checked
from cronlease.triggers.database import OwnDatabase, described
from cronlease.triggers.request import (
    Receive,
    Refused,
    Scope,
    is_vercel,
    not_allowed,
    place,
    read_hit,
    reason_to_skip,
)

if TYPE_CHECKING:
    from cronlease.triggers.browser import Browser
    from cronlease.triggers.health import HealthCheck
    from cronlease.triggers.report import Report

_ROUTES = {
    "/": ("POST",),
    "/<function>": ("POST",),
    "/run-due": ("POST",),
    "/health/live": ("GET", "HEAD"),
    "/health/ready": ("GET", "HEAD"),
    "/health/schedules": ("GET", "HEAD"),
    "/status": ("GET",),
    "/status/<function>": ("GET",),
}


class HttpTrigger:
    """Jobs behind HTTP: those of the given names, else all that are registered. `/` is the main one, or the only one.
    `hook` is called with each request: it makes the process drain when it is told to stop."""

    def __init__(
        self,
        settings: Settings,
        hook: Callable[[Settings], None],
        *,
        names: Collection[str] | None = None,
        main: str | None = None,
    ) -> None:
        self._settings = settings
        self._hook = hook
        self._names = names
        self._main = main
        self._admit = guard(settings)
        self._database = OwnDatabase(settings)
        self._said_served = False
        self._browser: Browser | None = None
        self._health: HealthCheck | None = None

    def say_served(self, address: str) -> None:
        """Logs once what this process serves: at its start if that is known by then, else at the first request."""
        logs.configure(self._settings.log_level)
        self._said_served = True
        names = list(self._jobs())
        function = self._main or ", ".join(names)
        others = [name for name in names if self._main not in (None, name)]
        more = f" (POST /run-due also runs {', '.join(others)})" if others else ""
        text = f"Serving {function}{more} at {address} on {described(self._settings)}"
        logs.log(logging.INFO, text, action="serving_started", function=function)

    async def answer(self, scope: Scope, receive: Receive) -> Answer:
        """Never raises: whatever happens, the caller gets one JSON sentence and the log gets the rest."""
        logs.configure(self._settings.log_level)
        self._hook(self._settings)
        logs.headers.set(scope["headers"])
        request_id = uuid4()
        try:
            if not self._said_served:
                host, port = scope.get("server") or ("", None)
                address = f"http://{host}:{port}" if port else str(host)
                self.say_served(address + place(scope)[0])
            return await self._route(scope, receive, request_id)
        except Refused as refused:
            return _refusal(scope, request_id, refused)
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
            return json_answer(body, request_id, 500)

    async def _route(self, scope: Scope, receive: Receive, request_id: UUID) -> Answer:
        root, path = place(scope)
        if path == "/status" or path.startswith("/status/"):
            return await self._status(scope, receive, request_id)
        if path == "/" and scope["method"] == "GET" and not self._jobs():
            from cronlease.triggers.status import is_for_browser

            if is_for_browser(scope):
                # Where nothing runs, as in `cronlease ui`, the page is all there is.
                return json_answer({"ok": True}, request_id, 303, {"Location": f"{root}/status"})
        job = self._job_at(root, path)
        allowed = _ROUTES["/"] if job is not None else _ROUTES[path]
        # Vercel's cron sends a GET with its secret. Where nobody checks that, a GET starts nothing.
        by_vercel = job is not None and self._settings.auth == "token" and is_vercel(scope)
        if scope["method"] not in allowed and not by_vercel:
            raise not_allowed(scope["method"], root + path, allowed)
        if self._admit is not None and not path.startswith("/health/"):
            await self._admit(scope["headers"])
        if job is not None:
            with process.work():
                outcome = await self._hit(job, scope, receive, request_id)
            return outcome_answer(outcome)
        if path == "/run-due":
            with process.work():
                report = await self._run_due(scope, receive)
            return json_answer(report.as_json(), request_id, report.http_status)
        if path == "/health/schedules":
            return await self._schedules(scope, request_id)
        if path == "/health/live":
            return json_answer({"live": True}, request_id)
        if process.draining:
            return json_answer({"ready": False, "reason": SkipReason.SHUTTING_DOWN}, request_id, 503)
        return json_answer({"ready": True}, request_id)

    def _jobs(self) -> Mapping[str, Job]:
        """Looked up for each request: a host may mount us before it has imported the functions."""
        if self._names is None:
            return registry.jobs()
        return {name: job for name, job in registry.jobs().items() if name in self._names}

    def _job_at(self, root: str, path: str) -> Job | None:
        """The function at that path; None if it is one of our own paths. Raises Refused if there is nothing."""
        if path != "/" and path in _ROUTES:
            return None
        jobs = self._jobs()
        name = path[1:] or self._main
        if name is None:
            names = [name for name, job in jobs.items() if job.has_row]
            if len(names) != 1:
                several = f"several functions are served here: POST {root}/<function>"
                none = f"no function is served here: {root}/status shows the schedules"
                raise Refused(404, "not_found", several if names else none)
            name = names[0]
        job = jobs.get(name)
        if job is None or not job.has_row:
            paths = ", ".join(root + path for path in _ROUTES)
            raise Refused(404, "not_found", f"there is nothing at this path: the paths are {paths}")
        return job

    async def _hit(self, job: Job, scope: Scope, receive: Receive, request_id: UUID) -> Outcome:
        if (reason := reason_to_skip(scope)) is not None:
            return skip_unasked(job.name, request_id, reason)
        hit = await read_hit(scope, receive)
        check_hit(self._settings, scope, hit)
        try:
            database = self._database.get()
        except Unreachable as trouble:
            log_unreadable(job.name, request_id, str(trouble))
            reason = SkipReason.SCHEDULE_READ_ERROR
            return telemetry.skipped(Outcome(job.name, request_id, skipped=reason, hint=str(trouble)))
        jobs = registry.jobs()
        if hit.force:
            from cronlease.run.by_hand import run_by_hand
            from cronlease.triggers.caller import caller

            who = caller(self._settings, scope)
            return await run_by_hand(job, hit, database, self._settings, actor=who, request_id=request_id, jobs=jobs)
        return await run_once(job, hit, database, self._settings, request_id=request_id, jobs=jobs)

    async def _run_due(self, scope: Scope, receive: Receive) -> "Report":
        from cronlease.triggers.dispatch import Dispatcher
        from cronlease.triggers.report import Report

        if (reason := reason_to_skip(scope)) is not None:
            return Report(reason=reason)
        hit = await read_hit(scope, receive)
        if hit.force or hit.args:
            raise Refused(400, "bad_request", "run-due takes no force and no args: it runs what is due, as it is")
        try:
            database = self._database.get()
        except Unreachable as trouble:
            log_unreadable("run-due", uuid4(), str(trouble))
            return Report(reason=SkipReason.SCHEDULE_READ_ERROR)
        return await Dispatcher(self._jobs(), database, self._settings).run_due()

    async def _status(self, scope: Scope, receive: Receive, request_id: UUID) -> Answer:
        """The status in JSON, or for a browser as a page, which has forms."""
        from cronlease.triggers.status import Status, is_for_browser

        status = Status(self._settings, self._database, self._admit, self._jobs)
        if not is_for_browser(scope):
            return await status.answer(scope, request_id)
        if self._browser is None:
            from cronlease.triggers.browser import Browser

            self._browser = Browser(status)
        return await self._browser.answer(scope, receive, request_id)

    async def _schedules(self, scope: Scope, request_id: UUID) -> Answer:
        from cronlease.triggers.health import HealthCheck

        self._health = self._health or HealthCheck(self._database, self._settings.limits().acquire)
        health = await self._health.read()
        with_names = is_checked(self._settings, scope) and await is_admitted(self._admit, scope)
        return json_answer(health.as_json(with_names=with_names), request_id, health.http_status)

    def move(self, settings: Settings) -> None:
        """Switches to these settings: for tests, whose database is not there when a function is declared."""
        self._settings, self._database, self._admit = settings, OwnDatabase(settings), guard(settings)
        self._browser = None
        self._said_served, self._health = True, None

    async def close(self) -> None:
        await self._database.close()


def _refusal(scope: Scope, request_id: UUID, refused: Refused) -> Answer:
    log_refusal(scope, request_id, refused)
    body = {"ok": False, "skipped": False, "status": "refused", "reason": refused.reason, "error": str(refused)}
    return json_answer(body, request_id, refused.http_status, refused.headers)
