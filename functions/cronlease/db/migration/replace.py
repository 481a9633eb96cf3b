"""Puts a function or view of schema/ into the database: older signatures go, grants stay, and nobody gets a
new one by default."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from cronlease.db.ask import ask_sync, send_sync
from cronlease.db.migration.schema_files import SchemaFile
from cronlease.db.queries import Query, first, load_queries
from cronlease.errors import Mismatch

_SQL = load_queries(Path(__file__).with_suffix(".sql"))


def grants_of(conn: Any, name: str) -> list[str]:
    """Statements that give again what is granted now on the function or view of that name."""
    grants: list[str] = ask_sync(conn, Query(_SQL["grants"], {"name": name}, first))
    return grants


def closing_of(names: Iterable[str], tables: Iterable[str] = ()) -> str:
    """The statement that takes these new things, and what numbers the tables' rows, from all but their owner."""
    return _SQL["close"].strip().replace("{names}", _array(names)).replace("{tables}", _array(tables))


def _array(names: Iterable[str]) -> str:
    return "'{" + ",".join(names) + "}'::text[]"


def replace(conn: Any, file: SchemaFile, *, adopting: bool = False) -> None:
    """Creates the function or view in its present form; older signatures are dropped, grants are given again. What
    is adopted was not ours: nobody keeps a right on it, since ours may act with the rights of its owner."""
    grants, before = [] if adopting else grants_of(conn, file.name), _versions(conn, file.name)
    if adopting and "returns trigger" not in file.text:
        # Made anew, it also has another owner. Triggers hold on to theirs, which acts for whoever writes.
        _drop(conn, file.name, before)
    send_sync(conn, "savepoint before")
    try:
        send_sync(conn, file.sql)
    except Mismatch:
        # Same name and arguments, another result: that cannot be replaced in place.
        send_sync(conn, "rollback to savepoint before")
        _drop(conn, file.name, before)
        send_sync(conn, file.sql)
    send_sync(conn, "release savepoint before")
    _drop(conn, file.name, before)
    if adopting or not _oids(before) & _oids(_versions(conn, file.name)):
        send_sync(conn, closing_of([file.name]))
    for statement in filter(None, [*grants, file.closing]):
        send_sync(conn, statement)


def _versions(conn: Any, name: str) -> dict[str, str]:
    """Every function or view of that name: its version, and the statement that drops it."""
    versions: dict[str, str] = ask_sync(conn, Query(_SQL["versions"], {"name": name}, first))
    return versions


def _drop(conn: Any, name: str, before: Collection[str]) -> None:
    """Drops those of the versions that nothing has replaced."""
    for version, removal in _versions(conn, name).items():
        if version in before:
            send_sync(conn, removal)


def _oids(versions: Iterable[str]) -> set[str]:
    return {version.partition("/")[0] for version in versions}
