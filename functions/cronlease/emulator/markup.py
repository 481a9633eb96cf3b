"""The same openings as the feeds write them that are not JSON: Personio's XML, RSS 2.0 and Atom."""

from email.utils import format_datetime
from html import escape

from cronlease.emulator.shapes import Asked

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'


def personio(asked: Asked) -> str:
    """It has no address of an opening: a reader builds it from the ID."""
    positions = (
        _tag(
            "position",
            _text("id", one.identity),
            _text("subcompany", f"{asked.board.title()} GmbH"),
            _text("office", one.city),
            _text("department", "Retail"),
            _text("name", one.title),
            "<jobDescriptions><jobDescription><name>About</name>"
            f"<value><![CDATA[<p>{escape(one.place)}</p>]]></value></jobDescription></jobDescriptions>",
            _text("employmentType", "permanent"),
            _text("seniority", "experienced"),
            _text("schedule", "full-time"),
            _text("createdAt", one.posted_at.isoformat()),
        )
        for one in asked.openings
    )
    return f"{_DECLARATION}<workzag-jobs>{''.join(positions)}</workzag-jobs>"


def rss(asked: Asked) -> str:
    items = (
        _tag(
            "item",
            _text("title", one.title),
            _text("link", f"https://{asked.board}.example/l/{one.identity}"),
            f'<guid isPermaLink="false">lic-{one.identity}</guid>',
            _text("pubDate", format_datetime(one.posted_at, usegmt=True)),
            _text("description", one.place),
            _text("category", "licence"),
        )
        for one in asked.openings
    )
    about = _text("title", asked.board.title()) + _text("link", f"https://{asked.board}.example/")
    channel = _tag("channel", about, _text("description", "New licences"), *items)
    return f'{_DECLARATION}<rss version="2.0">{channel}</rss>'


def atom(asked: Asked) -> str:
    entries = (
        _tag(
            "entry",
            _text("id", f"urn:x-{asked.board}:{one.identity}"),
            _text("title", one.title),
            f'<link rel="alternate" href="https://{asked.board}.example/l/{one.identity}"/>',
            _text("published", one.posted_at.isoformat()),
            _text("updated", one.updated_at.isoformat()),
            _text("summary", one.place),
        )
        for one in asked.openings
    )
    about = _text("id", f"urn:x-{asked.board}") + _text("title", asked.board.title())
    latest = max((one.updated_at for one in asked.openings), default=None)
    updated = _text("updated", latest.isoformat()) if latest else ""
    return f'{_DECLARATION}<feed xmlns="http://www.w3.org/2005/Atom">{about}{updated}{"".join(entries)}</feed>'


def _tag(name: str, *elements: str) -> str:
    return f"<{name}>{''.join(elements)}</{name}>"


def _text(name: str, value: object) -> str:
    return f"<{name}>{escape(str(value))}</{name}>"
