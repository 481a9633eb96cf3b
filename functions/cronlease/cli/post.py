"""A hit over HTTP: the token that goes with it, and the answer, which is not trusted."""

import os
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import click
import httpx2

from cronlease.cli.errors import UsageError
from cronlease.cli.output import outcome_line
from cronlease.explain.format import counted
from cronlease.observe.redact import redact
from cronlease.outcome import SkipReason
from cronlease.readers import tokens

_IDENTITY = ["gcloud", "auth", "print-identity-token"]
_IDENTITY_SECONDS = 60
_CONNECT_SECONDS = 10


class Answer(NamedTuple):
    http_status: int
    body: dict[str, Any]

    @property
    def is_fine(self) -> bool:
        """It ran or was skipped, and the schedule could be read."""
        went_well = self.http_status < 300 and self.body.get("ok") is True
        return went_well and self.body.get("reason") != SkipReason.SCHEDULE_READ_ERROR

    @property
    def line(self) -> str:
        """What a run here would print, as far as the answer has it."""
        if not isinstance(self.body.get("ran"), list):
            return outcome_line(self.body, self.http_status)
        failed = self.body.get("failed")
        return f"{counted(len(self.body['ran']), 'run')}, {len(failed) if isinstance(failed, list) else 0} failed"


def bearer(token: str | None, file: Path | None, *, identity: bool) -> str | None:
    """The token that the options name, else the environment's, else None."""
    if identity:
        return _identity_token()
    if token is None and file is None:
        token, named = os.environ.get("CRONLEASE_TOKEN"), os.environ.get("CRONLEASE_TOKEN_FILE")
        file = Path(named) if named and not token else None
    try:
        if file is not None:
            token = file.read_text("utf-8")
        # `tokens` accepts an identity token, too. Of several tokens, any will do.
        return tokens(token)[0] if token else None
    except OSError as error:
        raise click.ClickException(f"the token file {file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        # A UnicodeError would quote a byte of the secret.
        why = "it is not text" if isinstance(error, UnicodeError) else error
        raise click.ClickException(f"{file or 'the token'} cannot be used: {why}") from None


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
        raise click.ClickException(f"gcloud did not give an identity token: {why}")
    return done.stdout.strip()


def post(url: str, body: dict[str, Any], token: str | None, timeout: timedelta) -> Answer:
    """Sends one request and never repeats it: a run that has not answered may still be at work. Follows no redirect,
    which would take the token elsewhere."""
    headers = {"User-Agent": "cronlease-trigger"} | ({"Authorization": f"Bearer {token}"} if token else {})
    asked_for = {name: value for name, value in body.items() if value}
    limits = httpx2.Timeout(max(timeout.total_seconds(), 1), connect=_CONNECT_SECONDS)
    # Before the sentence around it: its own punctuation could hide a secret.
    where = redact(url)
    try:
        response = httpx2.post(url, json=asked_for, headers=headers, timeout=limits)
    except (httpx2.UnsupportedProtocol, httpx2.InvalidURL):
        raise UsageError(f"{where} is not an address: write https://...") from None
    except httpx2.ReadTimeout:
        raise click.ClickException(f"{where} did not answer in time: it may still run") from None
    except httpx2.HTTPError as error:
        raise click.ClickException(f"{where} cannot be reached: {str(error) or type(error).__name__}") from None
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict) or "ok" not in document:
        raise click.ClickException(
            f"{where} answered {response.status_code}, but not as a function of ours does: check the URL"
        )
    return Answer(response.status_code, document)
