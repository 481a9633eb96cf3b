"""What the settings say of callers, read from text: tokens, addresses, an audience. Knows nothing of who is let in.

All of them raise ValueError with the end of a sentence that names the variable. A value that no caller could ever
match is refused here, at the start, and not found out by a scheduler that is never let in.
"""

import re

_SHORTEST_TOKEN = 16
_PLAIN = r"""[^\s,;:<>()"'*@]+"""
_EMAIL = re.compile(rf"{_PLAIN}@{_PLAIN}\.{_PLAIN}")
_WEB_ADDRESS = re.compile(r"""https?://[A-Za-z0-9._:\[\]-]+(?:[/?#][^\s,<>"']*)?""")
_PLAIN_AUDIENCE = re.compile(r"[A-Za-z0-9/](?:[A-Za-z0-9._/-]|:(?!//))*")


def tokens(text: str) -> tuple[str, ...]:
    """One or several, apart by commas or white space."""
    found = tuple(text.replace(",", " ").split())
    if not found or any(len(token) < _SHORTEST_TOKEN or not token.isascii() for token in found):
        raise ValueError(f"a token has at least {_SHORTEST_TOKEN} ASCII characters and no white space or comma in it")
    return found


def emails(text: str) -> tuple[str, ...]:
    """One or several, apart by commas or white space; nothing between two commas is a mistake."""
    found = tuple(re.split(r"\s*,\s*|\s+", text.strip()))
    for email in found:
        if not _EMAIL.fullmatch(email):
            raise ValueError(
                f"{email!r} is not an e-mail address: write one such as caller@example.com, or several by commas"
            )
    return found


def audience(text: str) -> str:
    """The service's URL, or a plain ID such as that of an OAuth client."""
    if not (_WEB_ADDRESS.fullmatch(text) or _PLAIN_AUDIENCE.fullmatch(text)):
        raise ValueError(f"{text!r} is neither an address that starts with https:// nor one ID without white space")
    return text


def web_address(text: str) -> str:
    if not _WEB_ADDRESS.fullmatch(text):
        raise ValueError("it is not an address that starts with https://")
    return text
