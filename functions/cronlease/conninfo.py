"""How we connect: the connection string with every time limit in it. A string that cannot be read is never echoed."""

import os
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cronlease.sqlstate import sentence
from cronlease.trouble import DatabaseTrouble, Unreachable

_CONNECTION = {
    "application_name": "cronlease",
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}

_OF_LIBPQ = ("PGSERVICE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER")
_PLACE = ("service", "host", "hostaddr", "port", "dbname", "user")

_UNREADABLE_URL = (
    "DATABASE_URL cannot be read: write postgresql://user@host:5432/name with the password percent-encoded,"
    " or in PGPASSWORD"
)


def conninfo_of(url: str) -> str:
    """The connection string with our time limits, except where it sets its own. A malformed one is not echoed, and
    neither is one that libpq reads otherwise than it was meant: its parts may be parts of a password."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        raise Unreachable(_UNREADABLE_URL) from None
    shifted = any("@" in str(given.get(part) or "") for part in ("host", "dbname"))
    if shifted or not str(given.get("port") or "0").replace(",", "").isdigit():
        raise Unreachable(_UNREADABLE_URL)
    # Text is sent and read as UTF-8 whatever the role's or the environment's default is.
    return make_conninfo("", **{**_CONNECTION, **given, "client_encoding": "utf8"})


def restyling(conn: Connection[Any] | AsyncConnection[Any]) -> str | None:
    """What to send on a new connection so that times can be read; None where the server writes them as ISO already,
    which it has said without being asked. A pooler keeps this setting for its client."""
    style = conn.pgconn.parameter_status(b"DateStyle") or b""
    return None if style.startswith(b"ISO") else "set datestyle to iso"


def place_of(url: str) -> str:
    """Which database that is, in words of libpq's own, its environment included, and without a secret."""
    known = {option.keyword.decode(): option.val or b"" for option in psycopg.pq.Conninfo.get_defaults()}
    given = {
        **{name: text.decode("utf-8", "replace") for name, text in known.items()},
        **conninfo_to_dict(conninfo_of(url)),
    }
    return make_conninfo("", **{part: given[part] for part in _PLACE if given.get(part)})


def connect_plain(url: str, prepare_after: int | None = None) -> Connection[Any]:
    """A plain connection in autocommit mode; the caller closes it."""
    try:
        conn = Connection.connect(conninfo_of(url), autocommit=True, prepare_threshold=prepare_after)
        if statement := restyling(conn):
            conn.execute(statement)
        return conn
    except psycopg.Error as error:
        raise Unreachable(sentence(error)) from error


def advised(trouble: DatabaseTrouble) -> str:
    """What the trouble says, and what to check where no connection could be had."""
    said = str(trouble)
    if not isinstance(trouble, Unreachable) or said == _UNREADABLE_URL:
        return said
    # In the place of the driver's own question.
    return f"{said.partition(' Is the server running')[0]}: check {configured_by()} and that the server is up"


def configured_by() -> str:
    """What of the environment says where the database is."""
    ours = os.environ.get("DATABASE_URL")
    return "DATABASE_URL" if ours else ", ".join(filter(os.environ.get, _OF_LIBPQ)) or "DATABASE_URL"
