"""One alert: its text, and its delivery to a webhook that takes Slack's {"text": ...}. Knows nothing of the database.

The address is a secret: only its host is ever named, and the database knows only its hash.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from shlex import quote
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cronlease.observe import webhook
from cronlease.observe.redact import cut, printable, redact

# How long an answer may take. A run that ends waits for less, but a later answer still counts.
_ANSWER_SECONDS = 10.0
_LONGEST_ERROR = 500
# Words with which a chat notifies everybody.
_MENTION = re.compile(r"@(?=channel|here|everyone|all)", re.IGNORECASE)
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Alert(NamedTuple):
    """News about one schedule, as claim_refresh_alerts answers it."""

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
        """What happened, its error, how often and since when, a command that helps and the status page. Harmless in a
        chat, whatever the error contains."""
        sentence, advice = _SENTENCES[self.kind]
        happened = sentence.format(
            name=self.function_name,
            times="one run" if self.times == 1 else f"{self.times or 'several'} runs in a row",
            due=f" {_at(self.due_at)}" if self.due_at else "",
            error=f": {self.error}" if self.error and self.error.strip() else "",
        )
        happened = redact(cut(" ".join(printable(happened).split()), len(self.function_name) + _LONGEST_ERROR))
        lines = [happened.rstrip(".") + "."]
        if self.since is not None:
            lines[0] += f" {'It had been in' if self.kind == 'recovered' else 'In'} trouble since {_at(self.since)}."
        if advice:
            lines.append(printable(advice.format(name=quote(self.function_name))))
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
    """Sends the text. Returns None if it was accepted, else what went wrong, without any part of the address."""
    trouble: list[str | None] = []
    body, headers = json.dumps({"text": text}).encode(), {"Content-Type": "application/json"}

    def send() -> None:
        # A redirect would turn the POST into a GET without its text.
        trouble.append(webhook.trouble_with(url, body, headers, _ANSWER_SECONDS, redirects=False))

    try:
        # The timeout of the request is per step: a server that sends byte by byte could take forever.
        await webhook.wait_for(send, "alert", _ANSWER_SECONDS)
    except RuntimeError as error:
        return str(error)
    except TimeoutError:
        return "it did not answer in time"
    return trouble[0]
