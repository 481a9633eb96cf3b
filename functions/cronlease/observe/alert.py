"""One alert: its text, and its way to a webhook that takes Slack's {"text": ...}. Knows nothing of the database.

The address is a secret: only its host is ever named, and the database knows it by a hash.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from shlex import quote
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cronlease.observe import webhook
from cronlease.observe.redact import cut, printable, redact

# How long an answer may take: whoever ends a run waits less, but one that comes late still counts.
_ANSWER_SECONDS = 10.0
_LONGEST_ERROR = 500
# What makes a chat call everybody.
_MENTION = re.compile(r"@(?=channel|here|everyone|all)", re.IGNORECASE)
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Alert(NamedTuple):
    """What is to be told of one schedule, as claim_refresh_alerts answers it."""

    id: int
    address: str
    function_name: str
    kind: str
    since: datetime | None = None
    times: int | None = None
    error: str | None = None
    due_at: datetime | None = None

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> "Alert":
        values: dict[str, Any] = {name: row.get(name) for name in cls._fields}
        for name in ("since", "due_at"):
            values[name] = values[name] and datetime.fromisoformat(values[name])
        return cls(**values)

    def text(self, status_url: str | None = None) -> str:
        """What happened and its error, how often, since when, the command that helps and where to look; harmless in a
        chat, whatever the error says."""
        what, helps = _SENTENCES[self.kind]
        happened = what.format(
            name=self.function_name,
            times="one run" if self.times == 1 else f"{self.times or 'several'} runs in a row",
            due=f" {_at(self.due_at)}" if self.due_at else "",
            error=f": {self.error}" if self.error and self.error.strip() else "",
        )
        happened = redact(cut(" ".join(printable(happened).split()), len(self.function_name) + _LONGEST_ERROR))
        lines = [happened.rstrip(".") + "."]
        if self.since is not None:
            lines[0] += f" {'It had been in' if self.kind == 'recovered' else 'In'} trouble since {_at(self.since)}."
        if helps:
            lines.append(printable(helps.format(name=quote(self.function_name))))
        if status_url is not None:
            lines.append(f"Status: {status_url}")
        return _MENTION.sub("@\u200b", "\n".join(lines)).translate(_SLACK)


_MORE = "`cronlease explain {name}` says more"
_SENTENCES = {
    "failing": ("{name} is failing, {times}{error}", _MORE + ", and when it runs next."),
    "breaker_open": (
        "{name} is stopped by its breaker after {times} failed, until a probe at{due}{error}",
        "`cronlease schedule resume {name}` closes the breaker.",
    ),
    "abandoned": (
        "{name} was abandoned, {times}{error}",
        _MORE + "; look for a process that was killed, or ran out of memory.",
    ),
    "late": (
        "{name} is late, it was due{due}, and nobody has run it",
        "Check what triggers it; `cronlease schedule run {name}` runs it now.",
    ),
    "recovered": ("{name} is well again", ""),
}


def _at(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def host_of(url: str) -> str:
    return urlsplit(url).hostname or "the address"


async def post(url: str, text: str) -> str | None:
    """Sends the text; None when it was taken, else what went wrong, in words that hold nothing of the address."""
    loop, answered = asyncio.get_running_loop(), asyncio.Event()
    trouble: list[str | None] = []
    body, headers = json.dumps({"text": text}).encode(), {"Content-Type": "application/json"}

    def send() -> None:
        # A POST that is redirected would arrive as a GET without its text.
        trouble.append(webhook.trouble_with(url, body, headers, _ANSWER_SECONDS, redirects=False))
        # Nobody waits any more when the loop is closed.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(answered.set)

    try:
        webhook.start(send, "alert")
        # An answer that comes in drops takes longer than each of its steps.
        await asyncio.wait_for(answered.wait(), _ANSWER_SECONDS)
    except RuntimeError as error:
        return str(error)
    except TimeoutError:
        return "it did not answer in time"
    return trouble[0]
