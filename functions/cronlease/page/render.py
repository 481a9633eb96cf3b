"""Fills a template. Everything but the template's own text is escaped."""

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cronlease.explain.format import short, took

# Characters that a browser leaves unchanged in a path.
_PLAIN = re.compile(r"[\w.~: @-]+")


def render(template: str, **shown: Any) -> bytes:
    text: str = _environment().get_template(template).render(**shown)
    return text.encode("utf-8", "replace")


def address(root: str, name: str, **query: str | int | None) -> str:
    """The address of one schedule's page. A name that a browser would change in a path, such as .. or a/b, goes into
    the query."""
    given = {key: str(value) for key, value in query.items() if value}
    if _PLAIN.fullmatch(name) and name.strip(". ") and name == name.strip():
        path = f"{root}/status/{quote(name, safe='')}"
    else:
        path, given = f"{root}/status", {"name": name, **given}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def listing(root: str, **query: str | int | None) -> str:
    """The address of the list of schedules."""
    given = {key: str(value) for key, value in query.items() if value}
    return f"{root}/status" + (f"?{urlencode(given, errors='replace')}" if given else "")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"iso": _iso, "utc": _utc, "until": _until, "took": took, "ticked": _ticked}
    made.globals |= {"address": address, "listing": listing}
    return made


def _ticked(text: str) -> Markup:
    """Text between backticks becomes code; all of it is escaped."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return Markup("{}").format(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if place % 2 else piece for place, piece in enumerate(pieces)
    )


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def _utc(moment: datetime) -> str:
    """For a browser without scripts: a script replaces it with the viewer's local time."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _until(moment: datetime, now: datetime) -> str:
    """In the same words as the script, which then counts on."""
    length = moment - now
    return f"in {short(length)}" if length > timedelta() else f"{short(length)} ago"
