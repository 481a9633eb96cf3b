"""A hit over HTTP: the token that goes with it, and what the answer says. The answer may be anybody's."""

import os
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import click
import httpx2

from cronlease.cli.errors import UsageError
from cronlease.cli.table import one_line
from cronlease.explain.format import at, counted, how_to_resume, without_status
from cronlease.observe.redact import redact
from cronlease.outcome import Counts, SkipReason
from cronlease.readers import tokens

_IDENTITY = ["gcloud", "auth", "print-identity-token"]
_IDENTITY_SECONDS = 60
_CONNECT_SECONDS = 10


class Answer(NamedTuple):
    http_status: int
    body: dict[str, Any]

    @property
    def is_fine(self) -> bool:
        """It ran or was skipped; not where the schedule could not be read."""
        went_well = self.http_status < 300 and self.body.get("ok") is True
        return went_well and self.body.get("reason") != SkipReason.SCHEDULE_READ_ERROR

    @property
    def hint(self) -> str | None:
        """Not how to force a run over HTTP: --force does it."""
        if self.body.get("reason") == SkipReason.PAUSED:
            return how_to_resume(str(self.body.get("function")))
        hint = self.body.get("hint")
        return hint if isinstance(hint, str) and self.body.get("reason") != SkipReason.NOT_DUE else None


def bearer(token: str | None, file: Path | None, *, identity: bool) -> str | None:
    """What was asked for, else what the environment has; None where nobody has one."""
    if identity:
        return _identity_token()
    if token is None and file is None:
        token, named = os.environ.get("CRONLEASE_TOKEN"), os.environ.get("CRONLEASE_TOKEN_FILE")
        file = Path(named) if named and not token else None
    try:
        if file is not None:
            token = file.read_text("utf-8")
        # An identity token is one, too; of several the first will do.
        return tokens(token)[0] if token else None
    except OSError as error:
        raise click.ClickException(one_line(f"the token file {file} cannot be read: {error.strerror}")) from None
    except ValueError as error:
        where = one_line(str(file)) if file else "the token"
        raise click.ClickException(f"{where} cannot be used: {_without_value(error)}") from None


def _without_value(error: ValueError) -> str:
    return "it is not text" if isinstance(error, UnicodeError) else str(error)


def _identity_token() -> str:
    try:
        done = subprocess.run(_IDENTITY, capture_output=True, text=True, timeout=_IDENTITY_SECONDS)  # noqa: S603
    except FileNotFoundError:
        raise click.ClickException(
            "gcloud is not on the path: install the Google Cloud CLI, or pass a token with --token-file"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise click.ClickException(f"gcloud did not give an identity token: {type(error).__name__}") from None
    if done.returncode != 0 or not done.stdout.strip():
        why = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise click.ClickException(one_line(redact(f"gcloud did not give an identity token: {why}")))
    return done.stdout.strip()


def post(url: str, body: dict[str, Any], token: str | None, timeout: timedelta) -> Answer:
    """One request, never a second one: what did not answer may still run. No redirect takes the token elsewhere."""
    headers = {"User-Agent": "cronlease-trigger"} | ({"Authorization": f"Bearer {token}"} if token else {})
    # A function whose callers may not force is to see that nobody does.
    content = {name: value for name, value in body.items() if value}
    limits = httpx2.Timeout(max(timeout.total_seconds(), 1), connect=_CONNECT_SECONDS)
    try:
        response = httpx2.post(url, json=content, headers=headers, timeout=limits)
    except (httpx2.UnsupportedProtocol, httpx2.InvalidURL):
        raise UsageError(one_line(f"{redact(url)} is no address: write https://...")) from None
    except httpx2.ReadTimeout:
        raise click.ClickException(one_line(f"{redact(url)} did not answer in time: it may still run")) from None
    except httpx2.HTTPError as error:
        why = str(error) or type(error).__name__
        raise click.ClickException(one_line(redact(f"{url} cannot be reached: {why}"))) from None
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict) or "ok" not in document:
        raise click.ClickException(
            one_line(
                f"{redact(url)} answered {response.status_code}, and not as a function of ours does: check the URL"
            )
        )
    return Answer(response.status_code, document)


def answer_line(answer: Answer) -> str:
    """In the words of a run here, as far as the answer has what they need."""
    body = answer.body
    if isinstance(body.get("ran"), list):
        ran, failed = len(body["ran"]), body.get("failed")
        return f"{counted(ran, 'run')}, {len(failed) if isinstance(failed, list) else 0} failed"
    who = body.get("function", "refused")
    if body.get("skipped"):
        until = _moment(body.get("locked_until") or body.get("next_run_at"))
        return f"{who}: skipped, {body.get('reason')}{f' until {until}' if until else ''}"
    if not body["ok"]:
        error = without_status(body.get("reason"), str(body.get("error")))
        return f"{who}: {body.get('reason')} ({answer.http_status}): {error}"
    counts = [f"{name} {body[name]}" for name in Counts._fields if body.get(name) is not None]
    then = _moment(body.get("next_run_at"))
    took = body.get("duration_ms")
    took = f" in {took / 1000:.2f} s" if isinstance(took, int) else ""
    return ", ".join([f"{who}: {body.get('status')}{took}", *counts, *([f"next run {then}"] if then else [])])


def _moment(text: object) -> str | None:
    try:
        return at(datetime.fromisoformat(str(text))) if text else None
    except ValueError:
        return None
