"""RSS 2.0 and Atom: the items of a channel, the entries of a feed."""

import html
import re
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urljoin

from opening_signals.errors import Unusable
from opening_signals.feeds.kind import fields_of
from opening_signals.feeds.model import Opening, Source
from opening_signals.feeds.sanitize import LONGEST_LINK
from opening_signals.feeds.xml_items import XmlKind, text

# Only known tags: other text between these signs may be meant, as in "a<b and c>d" and "List<T>".
_TAG = re.compile(
    r"</?(?:(p|div|br|li|[uo]l|h[1-6]|t[drh])|a|abbr|big|cite|code|del|em|font|img|ins|mark|small|span|strike|strong|su[bp]"
    r"|[biqsu])(?:\s+[\w:-]+=[^<>]*|\s*/?)>",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&#?\w+;")


class Rss(XmlKind):
    accept = "application/rss+xml, application/atom+xml, application/xml, text/xml"
    places = (("rss", "channel", "item"), ("feed", "entry"))
    version = "2"

    def opening(self, item: Any, source: Source, repairs: list[str]) -> Opening | None:
        item = fields_of(item, "has no elements in it")
        link = _link(item.get("link"))
        return Opening.of(
            item,
            repairs,
            external_id=text(item.get("guid")) or text(item.get("id")) or link,
            title=_plain(text(item.get("title"))),
            organization=source.organization,
            url=link and _joined(source.url, link),
            posted_at=_posted(item),
        )


def _plain(title: Any) -> Any:
    """Many feeds write titles in HTML, and nothing in a feed says so."""
    if not isinstance(title, str) or not ("<" in title or "&" in title):
        return title
    without = _TAG.sub(lambda tag: " " if tag[1] else "", title)
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), without).strip()


def _link(value: Any) -> str | None:
    """RSS has the address as text. Atom has it as an attribute, and distinguishes several links by another one."""
    for link in value if isinstance(value, list) else [value]:
        if isinstance(link, dict) and "@href" in link:
            if link.get("@rel", "alternate") == "alternate":
                return str(link["@href"])
        elif address := text(link):
            return str(address)
    return None


def _joined(base: str, link: str) -> str | Unusable:
    if len(link) > LONGEST_LINK:
        # Not joined: the standard library would cache it.
        return link
    try:
        return urljoin(base, link)
    except ValueError:
        return Unusable("is not an address")


def _posted(item: dict[str, Any]) -> datetime | str | Unusable | None:
    """An Atom entry must have `updated` and may have `published`."""
    written = text(item.get("pubDate"))
    if not written:
        others: list[str | None] = [text(item.get(name)) for name in ("published", "dc:date", "updated")]
        return next(filter(None, others), None)
    try:
        return parsedate_to_datetime(written)
    except Exception:
        # Not only ValueError: the standard library's parser itself fails on some texts.
        return Unusable("is not an RFC 822 time")
