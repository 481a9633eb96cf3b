"""A configured database, as opposed to the emulator's own: what a person must know before it is used."""

from collections.abc import Iterable, Mapping
from typing import Any

from psycopg import Connection, DatabaseError

from cronlease.db.conninfo import advised, connect_sync
from cronlease.db.sqlstate import sentence
from cronlease.emulator.extensions import Extension
from cronlease.emulator.function import EmulatorError
from cronlease.errors import DatabaseTrouble
from cronlease.process.emulated import EMULATED
from cronlease.settings import load

_KEPT = "your schedules keep their times: a hit runs only what is due, and really runs it"
_SHORTENED = (
    "schedules that are due there really run, and because of --speed a deployed function follows the shortened times"
    " for up to an hour"
)


class Refused(EmulatorError):
    """The emulation would do harm: change the command line or the environment."""


def notice(env: Mapping[str, str], extensions: Iterable[Extension]) -> str:
    """The warning to print before anything is written there. Raises Refused if samples would mix with real data."""
    try:
        with connect_sync(env.get("DATABASE_URL", "")) as conn:
            place, refused = _place(conn), _refusal(conn, env, extensions)
    except DatabaseTrouble as trouble:
        raise EmulatorError(advised(trouble)) from trouble
    if refused:
        why, instead = refused
        unset = f"unset {' and '.join(_named_by(env))} to emulate in a database of its own"
        raise Refused(f"{place} {why}: {unset}, or {instead}")
    return f"emulating in the configured {place}, not in one of its own: {_SHORTENED if EMULATED in env else _KEPT}"


def _place(conn: Connection[Any]) -> str:
    """Holds no secret. The host of a socket is its directory."""
    info = conn.info
    port = "" if info.host.startswith("/") else f":{info.port}"
    return f'database "{info.dbname}" at {info.host}{port}'


def _refusal(
    conn: Connection[Any], env: Mapping[str, str], extensions: Iterable[Extension]
) -> tuple[str, str] | None:
    try:
        return next(filter(None, (each.refusal(conn, env) for each in extensions)), None)
    except DatabaseError as error:
        raise EmulatorError(f"the configured database cannot be read: {sentence(error)}") from error


def _named_by(env: Mapping[str, str]) -> list[str]:
    """The variables each of which configures a database by itself."""
    candidates = [name for name in env if name == "DATABASE_URL" or name.startswith("PG")]
    return sorted(name for name in candidates if load({name: env[name]}).has_database)
