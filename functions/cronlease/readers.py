"""How the text of each setting is read: a number, a word, tokens, addresses. What the values mean together is up to
settings.py.

Each reader raises ValueError with the end of a sentence that begins with the variable's name. A value that no caller
could ever match is refused here, at startup, rather than by answering 401 to every scheduled call.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cronlease.cadence import Cadence, Every, duration

_SHORTEST_TOKEN = 16
_PLAIN = r"""[^\s,;:<>()"'*@]+"""
# Patterns are compiled when they are first used: few deployments set these, and each costs a cold start.
_EMAIL = rf"{_PLAIN}@{_PLAIN}\.{_PLAIN}"
_WEB_ADDRESS = r"""https?://[A-Za-z0-9._:\[\]-]+(?:[/?#][^\s,<>"']*)?"""
_PLAIN_AUDIENCE = r"[A-Za-z0-9/](?:[A-Za-z0-9._/-]|:(?!//))*"

# 46: the longest role name is cronlease_runner_<schema>, and PostgreSQL cuts a name after 63 characters.
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,45}")
# SQL's reserved words, from pg_get_keywords(): none of them can be a name without quotes.
_WORDS_OF_SQL = """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case
    cast char character check coalesce collate collation column concurrently constraint create cross current_catalog
    current_date current_role current_schema current_time current_timestamp current_user dec decimal default
    deferrable desc distinct do else end except exists extract false fetch float for foreign freeze from full grant
    greatest group grouping having ilike in initially inner inout int integer intersect interval into is isnull join
    json json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize
    json_table json_value lateral leading least left like limit localtime localtimestamp merge_action national
    natural nchar none normalize not notnull null nullif numeric offset on only or order out outer overlaps overlay
    placing position precision primary real references returning right row select session_user setof similar
    smallint some substring symmetric system_user table tablesample then time timestamp to trailing treat trim true
    union unique user using values varchar variadic verbose when where window with xmlattributes xmlconcat
    xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
"""


def schema_name(text: str) -> str:
    """A schema that can be named without quotes, and that does not belong to PostgreSQL."""
    if not _SCHEMA.fullmatch(text) or text in _WORDS_OF_SQL.split() or text == "information_schema":
        raise ValueError(
            f"{text!r} cannot be our schema: write at most 46 of a-z, 0-9 and _, not beginning with a digit or pg_,"
            " and not a reserved word of SQL"
        )
    return text


def tokens(text: str) -> tuple[str, ...]:
    """One or several, separated by commas or white space."""
    several = tuple(text.replace(",", " ").split())
    if not several or any(len(token) < _SHORTEST_TOKEN or not token.isascii() for token in several):
        raise ValueError(f"a token has at least {_SHORTEST_TOKEN} ASCII characters and no white space or comma in it")
    return several


def emails(text: str) -> tuple[str, ...]:
    """One or several, separated by commas or white space; an empty one between two commas is an error."""
    several = tuple(re.split(r"\s*,\s*|\s+", text.strip()))
    for email in several:
        if not re.fullmatch(_EMAIL, email):
            raise ValueError(
                f"{email!r} is not an e-mail address: write one such as caller@example.com, or several with commas"
            )
    return several


def audience(text: str) -> str:
    """The service's URL, or a plain ID such as an OAuth client's."""
    if not (re.fullmatch(_WEB_ADDRESS, text) or re.fullmatch(_PLAIN_AUDIENCE, text)):
        raise ValueError(f"{text!r} is neither an address that starts with https:// nor one ID without white space")
    return text


def web_address(text: str) -> str:
    if not re.fullmatch(_WEB_ADDRESS, text):
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
        raise ValueError(f"{text!r} must be longer than zero: write a longer time, or leave it out")
    return length


def one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is not one of {', '.join(words)}")
        return text

    return read


def webhooks(text: str) -> tuple[str, ...]:
    """One or several, separated by commas or white space; repeats are dropped. Each is a secret."""
    return tuple(dict.fromkeys(map(ping_address, text.replace(",", " ").split())))


def ping_address(text: str) -> str:
    """It is a secret, which the sentence must not repeat."""
    try:
        # Reading the port also validates the rest of the address.
        if text.isascii() and urlsplit(web_address(text)).port != 0:
            return text
    except ValueError:
        pass
    raise ValueError("it is not an address that starts with https:// or http:// and has no user and no white space")


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 1000:
        raise ValueError(f"{text!r} is not a whole number from 1 to 1000")
    return int(text)


def _cron(text: str) -> str:
    Cadence.of_cron(text)
    return text


def _zone(text: str) -> str:
    Cadence.of_cron("0 0 * * *", text)
    return text


# Field x of Settings is the variable CRONLEASE_X.
READERS: dict[str, Callable[[str], Any]] = {
    "lease": duration,
    "every": Cadence.parse,
    "cron": _cron,
    "time_zone": _zone,
    "missed": one_of("once", "skip"),
    "late": positive,
    "attempts": _whole,
    "backoff": Every.parse,
    "backoff_growth": number(1, 10),
    "backoff_cap": duration,
    "max_run": positive,
    "acquire_timeout": positive,
    "retention": positive,
    "dispatch_pause": duration,
    "drain_seconds": number(0, 3600),
    "announce_seconds": number(0, 3600),
    "auth": one_of("none", "iam", "oidc", "token"),
    "token": tokens,
    "token_file": Path,
    "oidc_audience": audience,
    "oidc_emails": emails,
    "oidc_issuer": web_address,
    "oidc_keys_url": web_address,
    "allow_force": lambda text: one_of("0", "1")(text) == "1",
    "ping_url": ping_address,
    "alert_url": webhooks,
    "status_url": web_address,
    "pause_after": _whole,
    "probe": positive,
    "pooler": one_of("auto", "none", "transaction"),
    "migrate": one_of("auto", "never"),
    "schema": schema_name,
    "log_level": one_of("DEBUG", "INFO", "WARNING", "ERROR"),
}
