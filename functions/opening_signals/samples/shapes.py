"""The sample openings in the formats of the feeds. A function per kind: a request in, a document out."""

import uuid
from collections.abc import Mapping, Sequence
from email.utils import format_datetime
from html import escape
from typing import Any, NamedTuple

from opening_signals.samples.boards import Sample

# Where the feed decides the size of a page: so few that there is a second page.
_ON_A_PAGE = 5
_JSON_FEED = "https://jsonfeed.org/version/1.1"


class Asked(NamedTuple):
    """A request: the openings of the board now, the address without the query, and the query."""

    board: str
    openings: Sequence[Sample]
    address: str
    query: Mapping[str, str]

    def number(self, name: str, default: int) -> int:
        given = self.query.get(name, "")
        return int(given) if given.isdecimal() and given.isascii() else default


def is_first_page(query: Mapping[str, str]) -> bool:
    return query.get("skip", "0") == "0" and query.get("page", "1") == "1"


def greenhouse(asked: Asked) -> Any:
    jobs = [
        {
            "id": one.identity,
            "title": one.title,
            "updated_at": one.updated_at.isoformat(),
            "first_published": one.posted_at.isoformat(),
            "location": {"name": one.place},
            "absolute_url": f"https://boards.example/{asked.board}/jobs/{one.identity}",
        }
        for one in asked.openings
    ]
    return {"jobs": jobs, "meta": {"total": len(jobs)}}


def lever(asked: Asked) -> Any:
    """A bare array; a page shorter than the limit is the last."""
    start = asked.number("skip", 0)
    return [_posting(asked.board, one) for one in asked.openings[start : start + asked.number("limit", 100)]]


def _posting(board: str, one: Sample) -> Any:
    identity = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{board}/{one.identity}"))
    return {
        "id": identity,
        "text": one.title,
        "categories": {"location": one.place},
        "workplaceType": "remote" if one.place == "Remote" else "on-site",
        "createdAt": int(one.posted_at.timestamp() * 1000),
        "hostedUrl": f"https://lever.example/{board}/{identity}",
    }


def teamtailor(asked: Asked) -> Any:
    """A JSON Feed with the places under the vendor's own key; it names its next page."""
    page = max(asked.number("page", 1), 1)
    items = [_item(asked.board, one) for one in asked.openings[(page - 1) * _ON_A_PAGE : page * _ON_A_PAGE]]
    feed = {"version": _JSON_FEED, "title": f"{asked.board.title()} jobs", "items": items}
    if page * _ON_A_PAGE < len(asked.openings):
        feed["next_url"] = f"{asked.address}?page={page + 1}"
    return feed


def _item(board: str, one: Sample) -> Any:
    city, _, country = one.place.partition(", ")
    return {
        "id": str(one.identity),
        "url": f"https://{board}.example/jobs/{one.identity}",
        "title": one.title,
        "date_published": one.posted_at.isoformat(),
        "date_modified": one.updated_at.isoformat(),
        "_jobposting": {"jobLocation": [{"address": {"addressLocality": city, "addressCountry": country}}]},
    }


def rss(asked: Asked) -> str:
    items = (
        _tag(
            "item",
            _text("title", one.title),
            _text("link", f"https://{asked.board}.example/l/{one.identity}"),
            f'<guid isPermaLink="false">lic-{one.identity}</guid>',
            _text("pubDate", format_datetime(one.posted_at, usegmt=True)),
            _text("description", one.place),
        )
        for one in asked.openings
    )
    about = _text("title", asked.board.title()) + _text("link", f"https://{asked.board}.example/")
    channel = _tag("channel", about, _text("description", "New licences"), *items)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0">{channel}</rss>'


def _tag(name: str, *elements: str) -> str:
    return f"<{name}>{''.join(elements)}</{name}>"


def _text(name: str, value: object) -> str:
    return _tag(name, escape(str(value)))
