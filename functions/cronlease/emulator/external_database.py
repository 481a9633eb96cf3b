"""A database that is configured, and so not the emulator's own: what a person must know before it is used."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from psycopg import Connection, DatabaseError
from psycopg.errors import UndefinedTable

from cronlease.db.conninfo import advised, connect_sync
from cronlease.db.queries import load_queries
from cronlease.db.sqlstate import sentence
from cronlease.emulator.feeds import FEEDS
from cronlease.emulator.function import EmulatorError
from cronlease.errors import DatabaseTrouble
from cronlease.settings import load


class Refused(EmulatorError):
    """What was asked for would do harm: the command line or the environment has to be another."""


def notice(env: Mapping[str, str], *, samples: bool) -> str:
    """What is said before anything is written there. Raises Refused where samples would get among real sources."""
    try:
        with connect_sync(env.get("DATABASE_URL", "")) as conn:
            place, others = _place(conn), _other_sources(conn) if samples else []
    except DatabaseTrouble as trouble:
        raise EmulatorError(advised(trouble)) from trouble
    if others:
        raise Refused(
            f"{place} has openings of sources that are no samples ({', '.join(others[:3])}): unset"
            f" {' and '.join(_named_by(env))} to emulate in a database of its own, or set CRONLEASE_SOURCES"
        )
    return f"emulating in the configured {place}, not in one of its own: what is due there is really run"


def _place(conn: Connection[Any]) -> str:
    """Without a secret; for a socket the host is its directory."""
    info = conn.info
    port = "" if info.host.startswith("/") else f":{info.port}"
    return f'database "{info.dbname}" at {info.host}{port}'


def _other_sources(conn: Connection[Any]) -> list[str]:
    names: set[str] = set()
    for query in load_queries(Path(__file__).with_suffix(".sql")).values():
        try:
            names |= {name for (name,) in conn.execute(query.encode(), {"samples": list(FEEDS)})}
        except UndefinedTable:
            # A database that is not migrated yet knows nobody.
            continue
        except DatabaseError as error:
            raise EmulatorError(
                f"the sources in the configured database cannot be read: {sentence(error)}"
            ) from error
    return sorted(names)


def _named_by(env: Mapping[str, str]) -> list[str]:
    """The variables of which each alone says which database it is."""
    candidates = [name for name in env if name == "DATABASE_URL" or name.startswith("PG")]
    return sorted(name for name in candidates if load({name: env[name]}).has_database)
