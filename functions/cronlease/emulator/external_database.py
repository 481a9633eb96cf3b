"""A database that is configured, and so not the emulator's own: what a person must know before it is used."""

from collections.abc import Iterable, Mapping
from typing import Any

from psycopg import Connection, DatabaseError

from cronlease.db.conninfo import advised, connect_sync
from cronlease.db.sqlstate import sentence
from cronlease.emulator.brought import Brought
from cronlease.emulator.function import EmulatorError
from cronlease.errors import DatabaseTrouble
from cronlease.settings import load


class Refused(EmulatorError):
    """What was asked for would do harm: the command line or the environment has to be another."""


def notice(env: Mapping[str, str], brought: Iterable[Brought]) -> str:
    """What is said before anything is written there. Raises Refused where samples would get among what is real."""
    try:
        with connect_sync(env.get("DATABASE_URL", "")) as conn:
            place, refused = _place(conn), _refusal(conn, env, brought)
    except DatabaseTrouble as trouble:
        raise EmulatorError(advised(trouble)) from trouble
    if refused:
        why, instead = refused
        unset = f"unset {' and '.join(_named_by(env))} to emulate in a database of its own"
        raise Refused(f"{place} {why}: {unset}, or {instead}")
    return f"emulating in the configured {place}, not in one of its own: what is due there is really run"


def _place(conn: Connection[Any]) -> str:
    """Without a secret; for a socket the host is its directory."""
    info = conn.info
    port = "" if info.host.startswith("/") else f":{info.port}"
    return f'database "{info.dbname}" at {info.host}{port}'


def _refusal(conn: Connection[Any], env: Mapping[str, str], brought: Iterable[Brought]) -> tuple[str, str] | None:
    try:
        return next(filter(None, (each.refusal(conn, env) for each in brought)), None)
    except DatabaseError as error:
        raise EmulatorError(f"the configured database cannot be read: {sentence(error)}") from error


def _named_by(env: Mapping[str, str]) -> list[str]:
    """The variables of which each alone says which database it is."""
    candidates = [name for name in env if name == "DATABASE_URL" or name.startswith("PG")]
    return sorted(name for name in candidates if load({name: env[name]}).has_database)
