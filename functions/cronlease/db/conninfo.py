"""How we connect: the connection string with every time limit in it. A string that cannot be read is never echoed."""

import os
import re
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cronlease.db.sqlstate import sentence
from cronlease.errors import DatabaseTrouble, Unreachable

SyncConnection = Connection[Any]
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
_DRIVER_IN_URL = (
    "DATABASE_URL names a driver in its scheme, as SQLAlchemy does: write postgresql:// instead of {scheme}"
)
_SCHEME_WITH_DRIVER = re.compile(r"postgres(ql)?\+\w+://")
# How a running server refuses a client, and what to do about it.
_REMEDIES = {
    "password authentication failed": "put the right role and password into {where}, the password percent-encoded",
    "no password supplied": "put the password into {where}, percent-encoded, or into PGPASSWORD",
    "no pg_hba.conf entry": "allow this host, role and database in the server's pg_hba.conf, or change {where}",
    " does not exist": "create it there, or name another one in {where}",
}


def conninfo_of(url: str) -> str:
    """The connection string with our time limits, except where it sets its own. A malformed one is not echoed, and
    neither is one that libpq misreads: its parts may be parts of a password."""
    if scheme := _SCHEME_WITH_DRIVER.match(url):
        raise Unreachable(_DRIVER_IN_URL.format(scheme=scheme[0]))
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
    """What to send on a new connection so that times can be read; None if the server, which reports its style, writes
    ISO times already. A pooler keeps this setting for its client."""
    style = conn.pgconn.parameter_status(b"DateStyle") or b""
    return None if style.startswith(b"ISO") else "set datestyle to iso"


def place_of(url: str) -> str:
    """Which database that is, in libpq's own terms, with its environment variables and without a secret."""
    known = {option.keyword.decode(): option.val or b"" for option in psycopg.pq.Conninfo.get_defaults()}
    given = {
        **{name: text.decode("utf-8", "replace") for name, text in known.items()},
        **conninfo_to_dict(conninfo_of(url)),
    }
    return make_conninfo("", **{part: given[part] for part in _PLACE if given.get(part)})


def connect_sync(url: str, prepare_after: int | None = None) -> Connection[Any]:
    """A plain connection in autocommit mode; the caller closes it."""
    try:
        conn = Connection.connect(conninfo_of(url), autocommit=True, prepare_threshold=prepare_after)
        if statement := restyling(conn):
            conn.execute(statement)
        return conn
    except psycopg.Error as error:
        raise Unreachable(sentence(error)) from error


def advised(trouble: DatabaseTrouble) -> str:
    """What the trouble says, and what to check if no connection could be made."""
    cause, remedy = in_parts(trouble)
    return f"{cause}: {remedy}" if remedy else cause


def in_parts(trouble: DatabaseTrouble) -> tuple[str, str]:
    """The same as two texts; the second is empty if there is nothing to add."""
    cause = str(trouble)
    if not isinstance(trouble, Unreachable):
        return cause, ""
    if cause.startswith("DATABASE_URL "):
        cause, _, remedy = cause.partition(": ")
        return cause, remedy
    # Drops the driver's own question, "Is the server running ...?".
    cause = (
        cause.removeprefix("connection failed: ")
        .partition(" Is the server running")[0]
        .replace("FATAL: ", "")
        .replace("fe_sendauth: ", "")
    )
    usual = "check {where} and that the server is up"
    remedy = next((remedy for sign, remedy in _REMEDIES.items() if sign in cause), usual)
    return cause, remedy.format(where=configured_by())


def configured_by() -> str:
    """The variables of the environment that say where the database is."""
    ours = os.environ.get("DATABASE_URL")
    return "DATABASE_URL" if ours else ", ".join(filter(os.environ.get, _OF_LIBPQ)) or "DATABASE_URL"
