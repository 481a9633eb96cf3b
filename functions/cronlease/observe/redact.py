"""Takes secrets out of texts that are logged, stored or answered, and whatever else does not belong there."""

import functools
import os
import re
from typing import Any
from urllib.parse import unquote

LONGEST_STORED = 2000
# Every text passes these, also what a stranger sends, so each must take linear time: it starts at a fixed word, and
# no two attempts read the same stretch. One from "://" ends at the next "/", or takes the whole word.
_URL_SECRET = re.compile(r"(?<=://)[^\s/@:]*:(?P<rest>\S*)")
_USER_SECRET = re.compile(r"(?i)(?P<scheme>https?://)[^\s/@?#]+@")
_QUERY_SECRET = re.compile(r"(?P<address>://[^\s?#\"'<>:]*(?::(?!//)[^\s?#\"'<>:]*)*\?)[^\s\"'<>]+")
# A quote that is not closed hides all that follows: the text may have been cut there.
_WORD_SECRET = re.compile(r"(?i)(?P<key>password|passwd|pwd)(?P<is>\s*[=:]\s*)(?:'[^']*(?:'|\Z)|\S+)")
_SCHEMES = "(?i:bearer|basic|token)"
_HEADER_SECRET = re.compile(
    rf"(?P<key>(?i:authorization)[\"']?\s*[:=,]\s*b?[\"']?)(?:{_SCHEMES}\s+)?(?!{_SCHEMES}\b)[^\s\"',<]+"
)
# Not a word, as in "basic authentication".
_BEARER_SECRET = re.compile(r"\b(?P<scheme>(?i:bearer|basic)\s+)(?=[\w.~+/=-]*[0-9A-Z=+/])[\w.~+/=-]{6,}")
_WORDS = re.compile(r"[a-z_-]+")
_hidden: set[str] = set()


def hide(*secrets: str) -> None:
    """Takes these out of every text from now on: secrets that are not in the environment."""
    _hidden.update(secrets)


def redact(text: str) -> str:
    """The text without passwords and tokens: those in addresses, key=value pairs and Authorization headers, and the
    configured ones anywhere. The query of an address (?...) counts as a secret, too."""
    # The plain `in` first: every line passes here, and almost none has a secret.
    if "://" in text:
        text = _URL_SECRET.sub(_without_password, text)
        text = _USER_SECRET.sub(r"\g<scheme>***@", text)
        text = _QUERY_SECRET.sub(r"\g<address>***", text)
    lowered = text.lower()
    if "passw" in lowered or "pwd" in lowered:
        text = _WORD_SECRET.sub(r"\g<key>\g<is>***", text)
    if "authorization" in lowered or "bearer" in lowered or "basic" in lowered:
        text = _BEARER_SECRET.sub(r"\g<scheme>***", _HEADER_SECRET.sub(r"\g<key>***", text))
    for secret in _configured():
        text = text.replace(secret, "***")
    return text


def _without_password(match: re.Match[str]) -> str:
    # From the last @ on: a password may hold one itself, and too much hidden is better than too little.
    at = match["rest"].rfind("@")
    return match[0] if at < 0 else "***" + match["rest"][at:]


def cut(text: str, most: int) -> str:
    """At most so many characters, to be redacted afterwards. Drops a secret that the cut would make unrecognizable at
    the end: an address without its @, half a bearer token, half of a configured secret."""
    if len(text) <= most:
        return text
    kept = text[:most]
    word = "" if kept[-1].isspace() else (kept.rsplit(maxsplit=1) or [""])[-1]
    before = kept[: len(kept) - len(word)]
    if before.rstrip().lower().endswith(("bearer", "basic")):
        kept = before
    elif "://" in word:
        kept = before + word[: word.index("://") + 3]
    for secret in _configured():
        half = next((size for size in range(len(secret) - 1, 0, -1) if kept.endswith(secret[:size])), 0)
        kept = kept[: len(kept) - half]
    return kept


def redact_value(value: Any, most: int) -> Any:
    """The value with every text in it redacted and at most so long, however deep it lies."""
    if isinstance(value, str):
        return redact(cut(value, most))
    if isinstance(value, dict):
        return {name: redact_value(each, most) for name, each in value.items()}
    return [redact_value(each, most) for each in value] if isinstance(value, list | tuple) else value


def storable(text: str) -> str:
    """Any text, made fit to be stored and answered: no secret, no NUL, valid Unicode, limited in length."""
    # Cut before, so that a long text costs no more, and after, since *** may be longer than a secret.
    text = redact(cut(text, 2 * LONGEST_STORED))[:LONGEST_STORED].replace("\0", "")
    return text.encode("utf-8", "replace").decode()


def text_of(error: BaseException) -> str:
    """What the error says, fit to be stored. One whose text cannot be had, or tries to end the process, still ends
    its run."""
    name = type(error).__name__
    try:
        said = str(error)
    except BaseException:
        said = "it has no readable text"
    return storable(f"{name}: {said}" if said else name)


def printable(text: str) -> str:
    """The text with a question mark for whatever might move a cursor; line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else " " if char.isspace() else "?" for char in text)


def _configured() -> list[str]:
    env = os.environ.get
    # The second one is what Vercel's cron sends.
    tokens = f"{env('CRONLEASE_TOKEN', '')} {env('CRON_SECRET', '')}"
    webhooks = f"{env('CRONLEASE_PING_URL', '')} {env('CRONLEASE_ALERT_URL', '')}"
    configured = _secrets_of(env("DATABASE_URL", ""), env("PGPASSWORD", ""), tokens, webhooks)
    return [*configured, *_hidden]


@functools.cache
def _secrets_of(url: str, password: str, tokens: str, webhooks: str) -> list[str]:
    secrets = [password, *tokens.replace(",", " ").split()]
    if match := re.search(r"://[^/@]*?:(.*)@", url):
        secrets += [match[1], unquote(match[1])]
    if match := re.search(r"password\s*=\s*('[^']*'|[^\s&]+)", url):
        secrets += [match[1].strip("'"), unquote(match[1])]
    # Read wrongly, a password may show up in pieces. A very short one would blank out ordinary words.
    secrets += [piece for secret in secrets for piece in re.split(r"[@/:?#]", secret)]
    secrets = [secret for secret in secrets if len(secret) >= 4]
    # Who knows the path may check in, or post. Its keys are secrets; a word in it may be a function's name.
    for webhook in webhooks.replace(",", " ").split():
        path = re.sub(r"^\w+://[^/?#]*", "", webhook)
        parts = [path.partition("{function}")[0], *re.split(r"[/?&=#]|{function}", path)]
        secrets += [part for part in parts if len(part) >= 8 and not _WORDS.fullmatch(part)]
    return sorted(set(secrets), key=len, reverse=True)
