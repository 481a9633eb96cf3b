"""Puts a function or view of schema/ into the database: older signatures go, grants stay, and nobody gets a
new one by default.

An older signature goes in two steps. Calls of it may be under way, and may be waiting for the very tables that
migrate has locked: they would fail if it were gone when they return. So it is set aside under another name, and
dropped when they have ended.
"""

import time
from collections.abc import Collection, Iterable
from typing import Any

from cronlease.db.ask import send_sync
from cronlease.db.migration.schema_files import SchemaFile
from cronlease.db.questions import Questions
from cronlease.errors import Mismatch

_ask = Questions(__file__)
_SET_ASIDE = "_set_aside_by_migrate"
_LONGEST_CALL = 5.0


def grants_of(conn: Any, name: str) -> list[str]:
    """Statements that grant again what is granted now on the function or view of that name."""
    grants: list[str] = _ask(conn, "grants", name=name)
    return grants


def closing_of(names: Iterable[str], tables: Iterable[str] = ()) -> str:
    """The statement that revokes these new things, and the tables' sequences, from all but their owner."""
    return _ask.texts["close"].strip().replace("{names}", _array(names)).replace("{tables}", _array(tables))


def _array(names: Iterable[str]) -> str:
    return "'{" + ",".join(names) + "}'::text[]"


def replace(conn: Any, file: SchemaFile, *, adopting: bool = False) -> None:
    """Creates the function or view in its present form; older signatures are dropped, grants are given again. What
    is adopted was not ours: nobody keeps a right on it, since ours may act with the rights of its owner."""
    grants, before = [] if adopting else grants_of(conn, file.name), _versions(conn, file.name)
    if adopting and "returns trigger" not in file.text:
        # A new one also gets a new owner. Triggers hold on to their function, which acts for whoever writes.
        _drop(conn, _older(conn, file.name, before))
    send_sync(conn, "savepoint before")
    try:
        send_sync(conn, file.sql)
    except Mismatch:
        # The same name and arguments with another result cannot be replaced in place.
        send_sync(conn, "rollback to savepoint before")
        _set_aside(conn, file.name, _older(conn, file.name, before))
        send_sync(conn, file.sql)
    send_sync(conn, "release savepoint before")
    _set_aside(conn, file.name, _older(conn, file.name, before))
    if adopting or not _oids(before) & _oids(_versions(conn, file.name)):
        send_sync(conn, closing_of([file.name]))
    for statement in filter(None, [*grants, file.closing]):
        send_sync(conn, statement)


def drop_set_aside(conn: Any, files: Iterable[SchemaFile], *, after_calls: bool = False) -> None:
    """Drops what was set aside of these. After calls: waits until no statement is under way that may be in one."""
    aside = _ask(conn, "set_aside", names=[f"{file.name}{_SET_ASIDE}" for file in files])
    if aside["functions"] and after_calls:
        gives_up_at = time.monotonic() + _LONGEST_CALL
        while time.monotonic() < gives_up_at and _ask(conn, "is_called", now=aside["now"]):
            time.sleep(0.05)
    _drop(conn, [f"function {each}" for each in aside["functions"]])


def _versions(conn: Any, name: str) -> dict[str, str]:
    """Every function or view of that name: its version, and what a statement calls it."""
    versions: dict[str, str] = _ask(conn, "versions", name=name)
    return versions


def _older(conn: Any, name: str, before: Collection[str]) -> list[str]:
    """Those of the versions that nothing has replaced."""
    return [each for version, each in _versions(conn, name).items() if version in before]


def _drop(conn: Any, objects: Iterable[str]) -> None:
    for each in objects:
        send_sync(conn, f"drop {each}")


def _set_aside(conn: Any, name: str, objects: Iterable[str]) -> None:
    """Views are dropped: whoever reads one has it locked until the end."""
    for each in objects:
        if each.startswith("view "):
            _drop(conn, [each])
            continue
        # Tried, so that whatever needs it is named now and not when it is dropped.
        send_sync(conn, f"savepoint trial; drop {each}; rollback to savepoint trial; release savepoint trial")
        send_sync(conn, f"alter {each} rename to {name}{_SET_ASIDE}")


def _oids(versions: Iterable[str]) -> set[str]:
    return {version.partition("/")[0] for version in versions}
