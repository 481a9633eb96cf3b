"""Puts a function or view of schema/functions into the database: older signatures go, grants stay, and nobody gets a
new one by default."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from cronlease.db.connection import ask_sync, send_sync
from cronlease.db.functions import Query
from cronlease.errors import Mismatch

_PACKAGE = Path(__file__).parent


class Replacement(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def closing(self) -> str: ...


def query(file: str, params: dict[str, Any] | None = None) -> Query[Any]:
    """One of the questions beside this module: each answers one value."""
    return Query((_PACKAGE / f"{file}.sql").read_text("utf-8"), params or {}, lambda row: row[0])


def grants_of(conn: Any, name: str) -> list[str]:
    """Statements that give again what is granted now on the function or view of that name."""
    found: list[str] = ask_sync(conn, query("migrate_grants", {"name": name}))
    return found


def closing_of(names: Iterable[str], tables: Iterable[str] = ()) -> str:
    """The statement that takes these new things, and what numbers the tables' rows, from all but their owner."""
    text = (_PACKAGE / "migrate_close.sql").read_text("utf-8").strip()
    return text.replace("{names}", _array(names)).replace("{tables}", _array(tables))


def _array(names: Iterable[str]) -> str:
    return "'{" + ",".join(names) + "}'::text[]"


def replace(conn: Any, file: Replacement) -> None:
    """Creates the function or view in its present form; older signatures are dropped, grants are given again."""
    name = {"name": file.name}
    grants = grants_of(conn, file.name)
    before: list[str] = ask_sync(conn, query("migrate_signatures", name))
    send_sync(conn, "savepoint before")
    try:
        send_sync(conn, file.text)
    except Mismatch:
        # Same name and arguments, another result: that cannot be replaced in place.
        send_sync(conn, "rollback to savepoint before")
        for statement in ask_sync(conn, query("migrate_drops", {**name, "among": before})):
            send_sync(conn, statement)
        send_sync(conn, file.text)
    send_sync(conn, "release savepoint before")
    for statement in ask_sync(conn, query("migrate_drops", {**name, "among": before})):
        send_sync(conn, statement)
    if not _oids(before) & _oids(ask_sync(conn, query("migrate_signatures", name))):
        send_sync(conn, closing_of([file.name]))
    for statement in [*grants, file.closing]:
        if statement:
            send_sync(conn, statement)


def _oids(versions: list[str]) -> set[str]:
    return {version.partition("/")[0] for version in versions}
