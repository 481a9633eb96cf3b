"""Personio's XML: all positions under <workzag-jobs>. An unknown company redirects to a web page of the vendor."""

from typing import Any
from urllib.parse import quote, urlsplit

from opening_signals.feeds.kind import fields_of
from opening_signals.feeds.model import Opening, Source
from opening_signals.feeds.xml_items import XmlKind, text


class Personio(XmlKind):
    address = "https://{company}.jobs.personio.de/xml?language=en"
    places = (("workzag-jobs", "position"),)
    version = "1"

    def opening(self, item: Any, source: Source, repairs: list[str]) -> Opening | None:
        item = fields_of(item, "has no elements in it")
        identity = text(item.get("id"))
        return Opening.of(
            item,
            repairs,
            external_id=identity,
            title=text(item.get("name")),
            organization=source.organization or text(item.get("subcompany")),
            location=text(item.get("office")),
            url=_page(source, identity),
            posted_at=text(item.get("createdAt")),
            department=text(item.get("department")),
        )


def _page(source: Source, identity: Any) -> str | None:
    """The feed has no addresses for people; they are on the same host."""
    parts = urlsplit(source.url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}/job/{quote(identity, safe='')}" if identity else None
