"""What tables consist of: as they are in a database, and as the migrations make them.

The server itself says what the migrations make: they are applied once more to temporary tables, and rolled back. That
takes no lock anybody waits for, and no more rights than the one to make temporary tables.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cronlease.db.connection import ask_sync, send_sync
from cronlease.db.functions import Query

TABLE = re.compile(r"^create (?:unlogged )?table (?:if not exists )?public\.(\w+)", re.MULTILINE)
_MADE = re.compile(
    r"^create (?:or replace )?(?:unlogged )?(?:table|function) (?:if not exists )?public\.(\w+)", re.MULTILINE
)
_UNLOGGED = re.compile(r"^create unlogged table public\.(\w+)", re.MULTILINE)


class Part(NamedTuple):
    """One thing of a table: the table itself, a column, a constraint, an index or a trigger."""

    table: str
    kind: str
    name: str
    detail: dict[str, Any]


Catalogue = dict[tuple[str, str, str], Part]


class File(Protocol):
    """A migration."""

    @property
    def name(self) -> str: ...

    @property
    def text(self) -> str: ...


def tables_of(files: Iterable[File]) -> list[str]:
    return [name for file in files for name in TABLE.findall(file.text)]


def made_by(files: Iterable[File]) -> list[str]:
    """The tables and functions that these migrations create."""
    return [name for file in files for name in _MADE.findall(file.text)]


def present(conn: Any, tables: Iterable[str]) -> Catalogue:
    """These tables as they are in the schema public; what is not there is left out."""
    return _read(conn, tables, scratch=False)


def wanted(conn: Any, files: Iterable[File]) -> dict[str, Catalogue]:
    """What each migration adds to what those before it made, by its name. In the caller's transaction, which is left
    as it was. Raises NotPermitted where the role may not make temporary tables."""
    files = list(files)
    tables = set(tables_of(files))
    unlogged = {name for file in files for name in _UNLOGGED.findall(file.text)}
    added: dict[str, Catalogue] = {}
    before: Catalogue = {}
    send_sync(conn, "savepoint scratch")
    try:
        for file in files:
            send_sync(conn, _for_scratch(file.text))
            after = _read(conn, tables, scratch=True)
            added[file.name] = {key: part for key, part in after.items() if before.get(key) != part}
            before = after
    finally:
        send_sync(conn, "rollback to savepoint scratch; release savepoint scratch")
    for part in (part for each in added.values() for part in each.values() if part.kind == "table"):
        part.detail["unlogged"] = part.table in unlogged
    return added


def _for_scratch(text: str) -> str:
    """The migration, about temporary tables. One of those cannot be unlogged, too."""
    for ours, theirs in (
        ("public.", "pg_temp."),
        ("'public'", "pg_my_temp_schema()::regnamespace::text"),
        ("create unlogged table", "create table"),
    ):
        text = text.replace(ours, theirs)
    return text


def together(added: dict[str, Catalogue]) -> Catalogue:
    """What all of these migrations make."""
    whole: Catalogue = {}
    for each in added.values():
        whole |= each
    return whole


def of_table(catalogue: Catalogue, table: str, kind: str) -> dict[str, Part]:
    return {part.name: part for part in catalogue.values() if part.table == table and part.kind == kind}


def _read(conn: Any, tables: Iterable[str], *, scratch: bool) -> Catalogue:
    text = Path(__file__).with_name("catalogue.sql").read_text("utf-8")
    asked = {"names": sorted(tables), "scratch": scratch}
    found: list[dict[str, Any]] = ask_sync(conn, Query(text, asked, lambda row: row[0]))
    parts = [Part(**each) for each in found]
    return {(part.table, part.kind, part.name): part for part in parts}
