"""What the job brings for its emulation, under the entry point group `cronlease.emulator`: sample feeds, rows to
show, and what must be true of its tables at the end."""

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
    """The sample feeds, named in the environment unless that names other sources."""
    server = FeedServer(latency=latency)
    server.write_sources(folder / "sources.toml")
    if not env.get(_SOURCES):
        env[_SOURCES] = str(folder / "sources.toml")
        # They are all on one host, and each takes its time.
        env[_PER_HOST] = env.get(_PER_HOST) or str(len(FEEDS))
    return server


def variables() -> list[str]:
    """What `feeds` puts into the environment."""
    return [_SOURCES, _PER_HOST]


def refusal(conn: Connection[Any], env: Mapping[str, str]) -> tuple[str, str] | None:
    """Why samples must not get into that database, and what else could be done; None where they may."""
    if env.get(_SOURCES):
        return None
    names: set[str] = set()
    for query in ("known_sources", "sources_of_openings"):
        try:
            names |= {name for (name,) in conn.execute(_SQL[query].encode(), {"samples": list(FEEDS)})}
        except UndefinedTable:
            # A database that is not migrated yet knows nobody.
            continue
    if not names:
        return None
    listed = ", ".join(sorted(names)[:3])
    return f"has openings of sources that are no samples ({listed})", f"set {_SOURCES}"


def tables() -> list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    """Rows to show: a title, the query, the columns that may be cut on a narrow terminal, those left out first."""
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
    """The query for what is wrong since %(since)s, a row each: the rule that was broken, and by what."""
    return _SQL["violations"]
