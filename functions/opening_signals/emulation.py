"""The job's extension of the emulator, loaded by the entry point group `cronlease.emulator`: sample feeds, rows to
show, and rules for the verdict. See cronlease.emulator.extensions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.errors import UndefinedTable

from cronlease.db.queries import load_queries
from opening_signals.samples.feeds import FEEDS, FeedServer

_SQL = load_queries(Path(__file__).with_suffix(".sql"))
_SOURCES = "CRONLEASE_SOURCES"
_PER_HOST = "CRONLEASE_PER_HOST"


def feeds(folder: Path, env: dict[str, str], latency: float) -> FeedServer:
    """The sample feeds. Sets CRONLEASE_SOURCES unless the user has set it."""
    server = FeedServer(latency=latency)
    server.write_sources(folder / "sources.toml")
    if not env.get(_SOURCES):
        env[_SOURCES] = str(folder / "sources.toml")
        # All of them are on one host, and each is slow.
        env[_PER_HOST] = env.get(_PER_HOST) or str(len(FEEDS))
    return server


def variables() -> list[str]:
    return [_SOURCES, _PER_HOST]


def refusal(conn: Connection[Any], env: Mapping[str, str]) -> tuple[str, str] | None:
    if env.get(_SOURCES):
        return None
    names: set[str] = set()
    for query in ("known_sources", "sources_of_openings"):
        try:
            names |= {name for (name,) in conn.execute(_SQL[query].encode(), {"samples": list(FEEDS)})}
        except UndefinedTable:
            # A database that is not migrated yet has no sources.
            continue
    if not names:
        return None
    listed = ", ".join(sorted(names)[:3])
    return f"has openings of sources that are not samples ({listed})", f"set {_SOURCES}"


def tables() -> list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    return [
        ("opening_signals by source", _SQL["sources"], ("source",), ()),
        (
            "opening_signals, the latest",
            _SQL["latest"],
            ("title", "location", "external_id"),
            ("changed_at", "location"),
        ),
    ]


def violations() -> str:
    return _SQL["violations"]
