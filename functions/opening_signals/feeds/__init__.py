"""The kinds of feed. To add one: for JSON a .toml file in presets/, for anything else a module here and a line
below."""

from collections.abc import Mapping

from opening_signals.feeds import json_feed, personio, rss
from opening_signals.feeds.kind import Kind

KINDS: Mapping[str, Kind] = {
    "json": json_feed.JsonKind(),
    **json_feed.presets(),
    "personio": personio.Personio(),
    "rss": rss.Rss(),
}
