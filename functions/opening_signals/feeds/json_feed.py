"""Reads JSON feeds as they stream, as their spec describes them. The presets are the .toml files in presets/."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ijson

from opening_signals.errors import EmptyFeedError, FeedError, Unusable
from opening_signals.feeds.dates import moment
from opening_signals.feeds.json_bytes import Cleaner, LongTexts, unmarked
from opening_signals.feeds.json_items import Items
from opening_signals.feeds.kind import Reader, fields_of
from opening_signals.feeds.model import Opening, Source
from opening_signals.feeds.spec import Expression, Feed, evaluate

PRESETS = Path(__file__).with_name("presets")
# ijson raises these for invalid JSON, the last for an exponent that is too large even for a Decimal.
_BROKEN = (ijson.JSONError, ValueError, ArithmeticError)


class JsonKind:
    """A preset, or without one the kind `json`, whose sources describe their feeds themselves."""

    accept = "application/json, application/feed+json"

    def __init__(self, preset: Mapping[str, Any] | None = None) -> None:
        self.preset = {name: value for name, value in (preset or {}).items() if name != "address"}
        self.address: str = (preset or {}).get("address", "")
        # An incomplete preset leaves fields that differ from feed to feed to the source.
        self.is_complete = {"external_id", "title"} <= self.preset.get("fields", {}).keys()
        self._feed = Feed.model_validate(self.preset) if self.is_complete else None

    def spec(self, source: Source) -> Feed:
        spec = source.feed or self._feed
        if spec is None:
            raise FeedError("its items and fields are not configured")
        return spec

    def reader(self, source: Source, url: str) -> "JsonReader":
        return JsonReader(self.spec(source), url, first=url == source.url)

    def reading(self, source: Source) -> str:
        return f"1 {self.spec(source).model_dump_json()}"

    def opening(self, item: Any, source: Source, repairs: list[str]) -> Opening | None:
        spec = self.spec(source)
        item = fields_of(item, "is not an object")
        if spec.skip and _is_skipped(spec.skip, item):
            return None
        fields = spec.fields.of(item)
        # Not isinstance, since True is an int.
        if type(fields["external_id"]) is int:
            fields["external_id"] = str(fields["external_id"])
        if source.organization:
            fields["organization"] = source.organization
        if "posted_at" in fields:
            fields["posted_at"] = moment(fields["posted_at"], spec.dates)
        return Opening.of(item, repairs, **fields)


class JsonReader(Reader):
    """Reads one page with ijson."""

    def __init__(self, spec: Feed, url: str, *, first: bool) -> None:
        self._spec = spec
        self._url = url
        self._may_be_empty = spec.may_be_empty or not first
        self._count = 0
        self._cleaner = Cleaner()
        self._texts = LongTexts()
        self._events: list[tuple[str, Any]] = ijson.sendable_list()
        self._parser = ijson.basic_parse_coro(self._events)
        self._items = Items(spec.items, {*spec.paging.watched, *((spec.marker,) if spec.marker else ())})

    def end(self) -> list[Any]:
        items = self.push(b"", final=True)
        spec = self._spec
        if not self._items.listed:
            raise FeedError(f"its JSON has no list `{spec.items.removesuffix('item').rstrip('.') or 'at its top'}`")
        if spec.marker and spec.marker not in self._items.values:
            raise FeedError(f"its JSON has no `{spec.marker}`")
        if not self._count and not self._may_be_empty:
            raise EmptyFeedError("it has no items, like a board that does not exist")
        return items

    @property
    def total(self) -> int | None:
        return self._spec.paging.total_in(self._items.values)

    def next_url(self, items_on_page: int, total: int = 0) -> str | None:
        return self._spec.paging.following(self._url, items_on_page, self._items.values, total)

    def anchored(self, url: str) -> str | None:
        return self._spec.paging.anchored(url)

    def push(self, piece: bytes, *, final: bool = False) -> list[Any]:
        try:
            cleaned, cut = self._texts.cut(self._cleaner.clean(piece, final=final))
            if cut:
                self._items.give_up()
            if cleaned:
                self._parser.send(cleaned)
            if final:
                self._parser.close()
        except _BROKEN:
            raise FeedError("it is not JSON, or it is cut off") from None
        events = self._events
        self._texts.note(cleaned, progress=bool(events))
        if self._cleaner.marked:
            events = [(event, unmarked(value)) for event, value in events]
        items = self._items.take(events)
        self._events.clear()
        self._count += len(items)
        return items


def _is_skipped(rule: Expression, item: Any) -> bool:
    answer = evaluate(rule.find, item)
    if isinstance(answer, Unusable):
        # Nobody knows whether the item should be shown.
        raise ValueError(f"skip: {answer.why}")
    return answer is True


def presets() -> dict[str, JsonKind]:
    """The kinds that are only data, by name."""
    return {path.stem: JsonKind(tomllib.loads(path.read_text(encoding="utf-8"))) for path in PRESETS.glob("*.toml")}
