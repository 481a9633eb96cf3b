"""GET /status and /status/<name> in JSON, and what the page shares with that.

browser.py answers with the page, which is made in page/: neither is imported before a browser asks for it.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs
from uuid import UUID

from cronlease.db.connection import within
from cronlease.db.functions import read_refresh_status
from cronlease.db.queries import Query
from cronlease.errors import DatabaseTrouble, NotPermitted, SchemaMissing
from cronlease.job import Job
from cronlease.observe import logs
from cronlease.settings import Settings
from cronlease.triggers.answer import Answer, json_answer
from cronlease.triggers.auth import Admit, check_status, is_checked
from cronlease.triggers.database import OwnDatabase
from cronlease.triggers.request import Refused, Scope, not_allowed, place

if TYPE_CHECKING:
    from cronlease.explain.rows import Details

T = TypeVar("T")

NOTHING_YET = "there is nothing here yet: the first hit, or `cronlease migrate`, creates the tables"
NO_SCHEDULES = "there are no schedules yet: the first hit at a function creates its schedule"
_FORM = b"application/x-www-form-urlencoded"


class Status:
    """What this process shows of the schedules."""

    def __init__(
        self,
        settings: Settings,
        database: OwnDatabase,
        admit: Admit | None,
        jobs: Callable[[], Mapping[str, Job]],
    ) -> None:
        self.settings = settings
        self.database = database
        self.admit = admit
        self.jobs = jobs

    async def answer(self, scope: Scope, request_id: UUID) -> Answer:
        """In JSON. Raises Refused."""
        root, path = place(scope)
        if scope["method"] != "GET":
            raise not_allowed(scope["method"], root + path, ("GET",))
        if self.admit is not None:
            await self.admit(scope["headers"])
        check_status(self.settings, scope)
        name = name_in(scope)
        document = await self._all(scope) if name is None else await self._one(scope, name)
        return json_answer({"ok": True, **document}, request_id)

    async def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """The answer, within the time limit of a hit's question. Raises Refused if there is none."""
        try:
            return await within(self.settings.limits().acquire, question)
        except SchemaMissing:
            raise
        except (DatabaseTrouble, TimeoutError) as trouble:
            logs.log(logging.ERROR, f"The status could not be read: {trouble}", action="status_failed")
            sentence = "the schedule cannot be read: the log says why"
            raise Refused(503, "schedule_read_error", sentence) from trouble

    async def _all(self, scope: Scope) -> dict[str, Any]:
        # Args may hold secrets.
        query = read_refresh_status(args=is_checked(self.settings, scope))
        try:
            document = await self.ask(self.asked(query))
        except SchemaMissing:
            return {"schedules": [], "runs": [], "hint": NOTHING_YET}
        return document if document["schedules"] else {**document, "hint": NO_SCHEDULES}

    async def _one(self, scope: Scope, name: str) -> dict[str, Any]:
        from cronlease.explain.sentences import sentences

        try:
            details = await self.details(name, 20, args=is_checked(self.settings, scope))
        except SchemaMissing:
            raise unknown(name) from None
        return {"sentences": sentences(details), **details.as_json}

    async def asked(self, query: Query[T]) -> T:
        return await self.database.get().ask(query)

    async def details(self, name: str, runs: int, *, args: bool) -> "Details":
        """Raises Refused, also if there is no such schedule."""
        from cronlease.explain.rows import read_details

        async def asked() -> "Details | None":
            try:
                return await self.database.get().ask(read_details(name, runs, args=args))
            except NotPermitted:
                return await self.database.get().ask(read_details(name, runs, args=args, backends=False))

        details = await self.ask(asked())
        if details is None:
            raise unknown(name)
        return details


def is_for_browser(scope: Scope) -> bool:
    """Whether a page is asked for, or a form of one was sent."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if scope["method"] == "POST":
        return headers.get(b"content-type", b"").startswith(_FORM)
    return scope["method"] in ("GET", "HEAD") and b"text/html" in headers.get(b"accept", b"")


def name_in(scope: Scope) -> str | None:
    """The schedule that was asked for: in the path, or as ?name= if a path cannot hold it."""
    _, path = place(scope)
    if path != "/status":
        return path.removeprefix("/status/").replace("\0", "")
    return query_of(scope).get("name") or None


def query_of(scope: Scope) -> dict[str, str]:
    """The last value of each field; what cannot be read is left out."""
    try:
        fields = parse_qs(scope.get("query_string", b"").decode("latin-1"), max_num_fields=20)
    except ValueError:
        return {}
    return {name: values[-1].replace("\0", "") for name, values in fields.items()}


def unknown(name: str) -> Refused:
    return Refused(404, "not_found", f'there is no schedule named "{name[:200]}": GET /status lists them all')
