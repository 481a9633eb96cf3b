"""Reads the text of one setting: a number, a word, tokens, addresses. Knows nothing of what they are for.

Each raises ValueError with the end of a sentence that begins with the variable's name. A value that no caller could
ever match is refused here, at the start, rather than by answering 401 to every scheduled call.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from urllib.parse import urlsplit

from cronlease.cadence import duration

_SHORTEST_TOKEN = 16
_PLAIN = r"""[^\s,;:<>()"'*@]+"""
_EMAIL = re.compile(rf"{_PLAIN}@{_PLAIN}\.{_PLAIN}")
_WEB_ADDRESS = re.compile(r"""https?://[A-Za-z0-9._:\[\]-]+(?:[/?#][^\s,<>"']*)?""")
_PLAIN_AUDIENCE = re.compile(r"[A-Za-z0-9/](?:[A-Za-z0-9._/-]|:(?!//))*")


def tokens(text: str) -> tuple[str, ...]:
    """One or several, apart by commas or white space."""
    several = tuple(text.replace(",", " ").split())
    if not several or any(len(token) < _SHORTEST_TOKEN or not token.isascii() for token in several):
        raise ValueError(f"a token has at least {_SHORTEST_TOKEN} ASCII characters and no white space or comma in it")
    return several


def emails(text: str) -> tuple[str, ...]:
    """One or several, apart by commas or white space; nothing between two commas is an error."""
    several = tuple(re.split(r"\s*,\s*|\s+", text.strip()))
    for email in several:
        if not _EMAIL.fullmatch(email):
            raise ValueError(
                f"{email!r} is not an e-mail address: write one such as caller@example.com, or several by commas"
            )
    return several


def audience(text: str) -> str:
    """The service's URL, or a plain ID such as that of an OAuth client."""
    if not (_WEB_ADDRESS.fullmatch(text) or _PLAIN_AUDIENCE.fullmatch(text)):
        raise ValueError(f"{text!r} is neither an address that starts with https:// nor one ID without white space")
    return text


def web_address(text: str) -> str:
    if not _WEB_ADDRESS.fullmatch(text):
        raise ValueError("it is not an address that starts with https://")
    return text


def number(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ValueError(f"{text!r} is not a number from {least:g} to {most:g}")
        return number

    return read


def positive(text: str) -> timedelta:
    if not (length := duration(text)):
        raise ValueError(f"{text!r} is no time at all: write a longer one, or leave it out")
    return length


def one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is not one of {', '.join(words)}")
        return text

    return read


def ping_address(text: str) -> str:
    """A secret: the sentence must not repeat it."""
    try:
        # Reading the port validates the rest of the address, too.
        if text.isascii() and urlsplit(web_address(text)).port != 0:
            return text
    except ValueError:
        pass
    raise ValueError("it is not an address that starts with https:// or http:// and has no user and no white space")
