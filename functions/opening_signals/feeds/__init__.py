"""The kinds of feed there are. A new one that is JSON is a .toml file in presets/; any other one is a module beside
this one and a line below."""

from collections.abc import Mapping

from opening_signals.feeds import json_feed, personio, rss
from opening_signals.feeds.kind import Kind

KINDS: Mapping[str, Kind] = {
    "json": json_feed.JsonKind(),
    **json_feed.presets(),
    "personio": personio.Personio(),
    "rss": rss.Rss(),
}
