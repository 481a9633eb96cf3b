"""Removes secrets, and whatever else does not belong there, from texts that are logged, stored or answered."""

import functools
import os
import re
from typing import Any
from urllib.parse import unquote

LONGEST_STORED = 2000
# Every text passes through these, even what a stranger sends, so each must take linear time: it starts at a fixed
# word, and no two attempts read the same stretch. A match from "://" ends at the next "/", or takes the whole word.
_URL_SECRET = re.compile(r"(?<=://)[^\s/@:]*:(?P<rest>\S*)")
_USER_SECRET = re.compile(r"(?i)(?P<scheme>https?://)[^\s/@?#]+@")
_QUERY_SECRET = re.compile(r"(?P<address>://[^\s?#\"'<>:]*(?::(?!//)[^\s?#\"'<>:]*)*\?)[^\s\"'<>]+")
# These are compiled when a text has such a word: most processes never see one.
# An open quote hides the rest of the text, which may have been cut there.
_KEY_AND_VALUE = r"(?i)(?P<key>password|passwd|pwd)(?P<is>\s*[=:]\s*)(?:'[^']*(?:'|\Z)|\S+)"
_SCHEMES = "(?i:bearer|basic|token)"
_HEADER_VALUE = rf"(?P<key>(?i:authorization)[\"']?\s*[:=,]\s*b?[\"']?)(?:{_SCHEMES}\s+)?(?!{_SCHEMES}\b)[^\s\"',<]+"
# Not an ordinary word, as in "basic authentication".
_BEARER_VALUE = r"\b(?P<scheme>(?i:bearer|basic)\s+)(?=[\w.~+/=-]*[0-9A-Z=+/])[\w.~+/=-]{6,}"
_WORDS = r"[a-z_-]+"
_hidden: set[str] = set()


def hide(*secrets: str) -> None:
    """Removes these from every text from now on: for secrets that are not in the environment."""
    _hidden.update(secrets)


def redact(text: str) -> str:
    """The text without passwords and tokens: those in addresses, key=value pairs and Authorization headers, and the
    configured ones anywhere. The query of an address (?...) also counts as a secret."""
    # A plain `in` first: every log line passes through here, and hardly any has a secret.
    if "://" in text:
        text = _URL_SECRET.sub(_without_password, text)
        text = _USER_SECRET.sub(r"\g<scheme>***@", text)
        text = _QUERY_SECRET.sub(r"\g<address>***", text)
    lowered = text.lower()
    if "passw" in lowered or "pwd" in lowered:
        text = re.sub(_KEY_AND_VALUE, r"\g<key>\g<is>***", text)
    if "authorization" in lowered or "bearer" in lowered or "basic" in lowered:
        text = re.sub(_HEADER_VALUE, r"\g<key>***", text)
        text = re.sub(_BEARER_VALUE, r"\g<scheme>***", text)
    for secret in _configured():
        text = text.replace(secret, "***")
    return text


def may_hold_secret(text: str) -> bool:
    """Whether `redact` might change the text; a no is certain."""
    lowered = text.lower()
    return (
        "://" in text
        or any(word in lowered for word in ("passw", "pwd", "authorization", "bearer", "basic"))
        or any(secret in text for secret in _configured())
    )


def _without_password(match: re.Match[str]) -> str:
    # Up to the last @: a password may contain one, and hiding too much is better than hiding too little.
    at = match["rest"].rfind("@")
    return match[0] if at < 0 else "***" + match["rest"][at:]


def cut(text: str, most: int) -> str:
    """The first `most` characters, to be redacted afterwards. Drops a secret at the end that the cut would make
    unrecognizable: an address without its @, half a bearer token, half of a configured secret."""
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
    """The value with every text in it redacted and cut to `most` characters, however deep it is."""
    if isinstance(value, str):
        return redact(cut(value, most))
    if isinstance(value, dict):
        return {name: redact_value(each, most) for name, each in value.items()}
    return [redact_value(each, most) for each in value] if isinstance(value, list | tuple) else value


def storable(text: str) -> str:
    """Any text, made fit to be stored and answered: no secret, no NUL, valid Unicode, limited in length."""
    # Cut before, to limit the work, and after, since *** may be longer than a secret.
    text = redact(cut(text, 2 * LONGEST_STORED))[:LONGEST_STORED].replace("\0", "")
    return text.encode("utf-8", "replace").decode()


def text_of(error: BaseException) -> str:
    """The error's text, fit to be stored. An error whose own __str__ raises, even SystemExit, still ends its run
    normally."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException:
        text = "it has no readable text"
    return storable(f"{name}: {text}" if text else name)


def printable(text: str) -> str:
    """The text with a question mark for whatever might move the cursor; line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else " " if char.isspace() else "?" for char in text)


def _configured() -> list[str]:
    env = os.environ.get
    # CRON_SECRET is what Vercel's cron sends.
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
    # A misread address may show a password in pieces. Very short ones would blank out ordinary words.
    secrets += [piece for secret in secrets for piece in re.split(r"[@/:?#]", secret)]
    secrets = [secret for secret in secrets if len(secret) >= 4]
    # Whoever knows the path may check in, or post. Its keys are secrets; a plain word may be a function's name.
    for webhook in webhooks.replace(",", " ").split():
        path = re.sub(r"^\w+://[^/?#]*", "", webhook)
        parts = [path.partition("{function}")[0], *re.split(r"[/?&=#]|{function}", path)]
        secrets += [part for part in parts if len(part) >= 8 and not re.fullmatch(_WORDS, part)]
    return sorted(set(secrets), key=len, reverse=True)
