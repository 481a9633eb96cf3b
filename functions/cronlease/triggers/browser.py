"""The status page over HTTP: who may see it, who may use its forms, and what a form does.

A form is accepted only from a caller that somebody vouches for, sent by one of our pages, with the text of its
cookie. The page that it leads to says what it did, in one of a closed set of sentences.
"""

import secrets
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from cronlease.db.conninfo import advised
from cronlease.db.functions import read_refresh_page
from cronlease.db.operations import pause_refresh, resume_refresh, unlock_refresh
from cronlease.errors import Contended, DatabaseTrouble, NotPermitted, SchemaMissing, StillRunning
from cronlease.errors import UnknownSchedule as Unknown
from cronlease.job import Hit
from cronlease.observe.redact import redact
from cronlease.page import details, overview, parts, render
from cronlease.process.shutdown import process
from cronlease.run.by_hand import run_by_hand
from cronlease.triggers.answer import Answer, log_refusal
from cronlease.triggers.auth import Tokens, check_status, is_checked, is_local
from cronlease.triggers.caller import caller
from cronlease.triggers.request import Receive, Refused, Scope, not_allowed, place, read_body, reason_to_skip
from cronlease.triggers.sign_in import (
    FORMS,
    SIGNED_IN,
    check_form,
    check_origin,
    forms_text,
    is_signed_in,
    set_cookie,
    sign_in,
    sign_in_cookie,
)
from cronlease.triggers.status import NO_SCHEDULES, NOTHING_YET, Status, name_in, query_of, unknown

_RUNS = 100
_REASON_LENGTH = 500
_REFUSED: dict[type[DatabaseTrouble], int] = {NotPermitted: 403, Contended: 409, StillRunning: 409}
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with that a browser hides from us where a form comes from.
    "Referrer-Policy": "same-origin",
}
_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class Browser:
    """The pages of one process, and their forms."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._settings = status.settings
        self._tokens = Tokens(status.settings) if status.settings.auth == "token" else None

    async def answer(self, scope: Scope, receive: Receive, request_id: UUID) -> Answer:
        """A refusal is a page, too."""
        view = _View(scope, request_id)
        try:
            if scope["method"] == "POST":
                return await self._form(view, receive)
            return await self._page(view)
        except Refused as refused:
            log_refusal(scope, request_id, refused)
            return view.notice(str(refused), refused.http_status, refused.headers, self._because(scope, refused))

    async def _page(self, view: "_View") -> Answer:
        if not await self._is_admitted(view.scope):
            return view.html("sign_in.html", 401, here=view.here, wrong=False)
        check_status(self._settings, view.scope)
        view.can_sign_out = SIGNED_IN in view.cookies
        try:
            name = name_in(view.scope)
            return await self._all(view) if name is None else await self._one(view, name)
        except SchemaMissing:
            return view.notice(NOTHING_YET)

    async def _is_admitted(self, scope: Scope) -> bool:
        """False if signing in would help. Raises Refused."""
        given = any(name == b"authorization" for name, _ in scope["headers"])
        if self._tokens is not None and not given:
            return is_signed_in(self._tokens, scope)
        if self._status.admit is not None:
            await self._status.admit(scope["headers"])
        return True

    async def _all(self, view: "_View") -> Answer:
        asked = overview.Asked.of(query_of(view.scope))
        document = await self._status.ask(self._status.asked(read_refresh_page(*asked)))
        shown = overview.of(document, asked)
        return view.html("overview.html", shown=shown, empty=NO_SCHEDULES, verdict=parts.verdict())

    async def _one(self, view: "_View", name: str) -> Answer:
        may = is_checked(self._settings, view.scope)
        read = await self._status.details(name, _RUNS, args=may)
        can_run = read.schedule.action in self._status.jobs()
        part = await parts.of_action(read.schedule.action, self._status.asked)
        shown = details.of(read, may_operate=may, can_run=can_run)
        said = details.SAID.get(query_of(view.scope).get("said", ""))
        return view.html("details.html", shown=shown, part=part, said=said, verdict=parts.verdict())

    async def _form(self, view: "_View", receive: Receive) -> Answer:
        check_origin(view.scope)
        fields = _fields(await read_body(view.scope, receive))
        name = name_in(view.scope)
        if name is None or "sign" in fields:
            return self._sign(view, fields)
        if not await self._is_admitted(view.scope):
            return view.html("sign_in.html", 401, here=view.here, wrong=False)
        if not is_checked(self._settings, view.scope):
            raise Refused(403, "forbidden", "these forms are refused to unchecked callers: set CRONLEASE_AUTH")
        check_form(view.scope, fields.get("form", ""))
        try:
            result = await self._operate(view, name, fields)
        except (Unknown, SchemaMissing):
            raise unknown(name) from None
        except DatabaseTrouble as trouble:
            kind = next((kind for kind in _REFUSED if isinstance(trouble, kind)), None)
            if kind is None:
                raise Refused(503, "schedule_read_error", "the database did not answer: try again") from trouble
            raise Refused(_REFUSED[kind], "refused", redact(str(trouble))) from trouble
        return view.redirect(render.address(view.root, name, said=result))

    def _sign(self, view: "_View", fields: dict[str, str]) -> Answer:
        """Signs the caller in or out."""
        if self._tokens is None or "sign" not in fields:
            raise not_allowed("POST", view.root + "/status", ("GET",))
        if fields["sign"] == "out":
            return view.redirect(f"{view.root}/status", sign_in_cookie(view.scope, view.root, ""))
        try:
            value = sign_in(self._tokens, fields.get("token", ""))
        except Refused as refused:
            log_refusal(view.scope, view.request_id, refused)
            return view.html("sign_in.html", 401, here=view.here, wrong=True)
        return view.redirect(view.here, sign_in_cookie(view.scope, view.root, value))

    async def _operate(self, view: "_View", name: str, fields: dict[str, str]) -> str:
        """Does what the form asks and records who did it; returns a key of details.SAID. Raises DatabaseTrouble or
        Refused."""
        who = caller(self._settings, view.scope)
        reason = fields.get("reason", "").strip()[:_REASON_LENGTH] or None
        database = self._status.database.get()
        match fields.get("operation"):
            case "pause":
                return "paused" if await database.ask(pause_refresh(name, reason, actor=who)) else "already_paused"
            case "resume":
                return "resumed" if await database.ask(resume_refresh(name, actor=who)) else "not_paused"
            case "unlock":
                holder: UUID | None = None
                with suppress(ValueError):
                    # The holder that was shown: a lease that somebody else has taken since then must not be broken.
                    holder = UUID(fields.get("holder", ""))
                lock = await database.ask(unlock_refresh(name, holder, actor=who, reason=reason))
                return "unlocked" if lock.unlocked else "held_by_another" if lock.locked_by else "not_locked"
            case "run":
                return await self._run(view, name, who)
        raise Refused(400, "bad_request", "operation: one of run, pause, resume and unlock")

    async def _run(self, view: "_View", name: str, who: str) -> str:
        if (reason := reason_to_skip(view.scope)) is not None:
            return f"skipped_{reason}"
        action = (await self._status.details(name, 1, args=False)).schedule.action
        jobs = self._status.jobs()
        if action not in jobs:
            raise Refused(
                409,
                "unknown_action",
                f'there is no function here for the action "{action}": run it where there is one',
            )
        with process.work():
            outcome = await run_by_hand(
                jobs[action],
                Hit(trigger="page", force=True),
                self._status.database.get(),
                self._settings,
                actor=who,
                request_id=view.request_id,
                name=name,
                jobs=jobs,
            )
        return f"skipped_{outcome.skipped}" if outcome.skipped else "failed" if outcome.failed else "ran"

    def _because(self, scope: Scope, refused: Refused) -> str | None:
        """What the log says, for the person at this machine."""
        cause = refused.__cause__
        if isinstance(cause, DatabaseTrouble) and self._settings.auth is None and is_local(scope):
            return redact(advised(cause))
        return None


class _View:
    """One request of a browser, and the answers to it."""

    def __init__(self, scope: Scope, request_id: UUID) -> None:
        from cronlease.triggers.sign_in import cookies

        self.scope = scope
        self.request_id = request_id
        self.root = place(scope)[0]
        self.cookies = cookies(scope)
        self.can_sign_out = False
        self._form = forms_text(scope)

    @property
    def here(self) -> str:
        """The page that was asked for, written anew: always one of ours."""
        if (name := name_in(self.scope)) is not None:
            return render.address(self.root, name)
        asked = overview.Asked.of(query_of(self.scope))
        return render.listing(
            self.root, search=asked.search, health=asked.health, page=asked.page if asked.page > 1 else None
        )

    def html(self, template: str, status: int = 200, more: dict[str, str] | None = None, **shown: Any) -> Answer:
        nonce = secrets.token_urlsafe(16)
        body = render.render(
            template, root=self.root, nonce=nonce, form=self._form, can_sign_out=self.can_sign_out, **shown
        )
        headers = self._headers({**_HEADERS, **(more or {}), "Content-Security-Policy": _POLICY.format(nonce=nonce)})
        if self.cookies.get(FORMS) != self._form:
            headers.append(set_cookie(self.scope, self.root, FORMS, self._form))
        return Answer(status, [(b"content-length", b"%d" % len(body)), *headers], body)

    def notice(
        self, sentence: str, status: int = 200, more: dict[str, str] | None = None, because: str | None = None
    ) -> Answer:
        """A page with one sentence."""
        return self.html("notice.html", status, more, sentence=sentence, because=because)

    def redirect(self, address: str, *headers: tuple[bytes, bytes]) -> Answer:
        given = self._headers({"Location": address, "Cache-Control": "no-store", "Content-Length": "0"})
        return Answer(303, [*given, *headers], b"")

    def _headers(self, given: dict[str, str]) -> list[tuple[bytes, bytes]]:
        given = {**given, "X-Request-Id": str(self.request_id)}
        return [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in given.items()]


def _fields(body: bytes) -> dict[str, str]:
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=20)
    except ValueError:
        raise Refused(400, "bad_request", "the form cannot be read: open the page again") from None
    return {name: values[-1].replace("\0", "") for name, values in fields.items()}
