"""What tables consist of, as they are in a database and as the migrations make them, and how the two differ.

The server itself says what the migrations make: they are applied once more to temporary tables, and rolled back. That
takes no lock that anybody waits for, and needs no right but the one to make temporary tables.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from cronlease.db.ask import send_sync
from cronlease.db.migration.packages import APART
from cronlease.db.migration.schema_files import SchemaFile, tables_of
from cronlease.db.questions import Questions

_ask = Questions(__file__)
_UNLOGGED = re.compile(r"^create unlogged table public\.(\w+)", re.MULTILINE)
_PLAIN_NAME = re.compile(r"^[a-z_][a-z0-9_]*$")


class Part(NamedTuple):
    """One thing of a table: the table itself, a column, a constraint, an index or a trigger."""

    table: str
    kind: str
    name: str
    detail: dict[str, Any]


Catalogue = dict[tuple[str, str, str], Part]


# Whether a table has a row for which a condition holds.
Holds = Callable[[str, str], bool]


class Difference(NamedTuple):
    """In words, one way in which a table is not what the migrations make of it. `statements` make it equal, or else
    `fix` is what only a person may decide to run. `theirs` is a rule that somebody has added, which may refuse what
    we write. `foreign` may belong to another application."""

    what: str
    statements: tuple[str, ...] = ()
    fix: str = ""
    theirs: bool = False
    foreign: bool = False

    @property
    def sentence(self) -> str:
        if not self.fix:
            return self.what
        change = f"change that with `{self.fix}`, then migrate"
        return f"{self.what}: {APART}, or {change}" if self.foreign else f"{self.what}: {change}"


def present(conn: Any, tables: Iterable[str], *, scratch: bool = False) -> Catalogue:
    """These tables as they are in our schema or, with `scratch`, among the temporary things of this session; what is
    not there is left out."""
    parts = [Part(**part) for part in _ask(conn, "parts", names=sorted(tables), scratch=scratch)]
    return {(part.table, part.kind, part.name): part for part in parts}


def made_by_each(conn: Any, files: Iterable[SchemaFile]) -> dict[str, Catalogue]:
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
            after = present(conn, tables, scratch=True)
            added[file.name] = {key: part for key, part in after.items() if before.get(key) != part}
            before = after
    finally:
        send_sync(conn, "rollback to savepoint scratch; release savepoint scratch")
    for part in (part for each in added.values() for part in each.values() if part.kind == "table"):
        part.detail["unlogged"] = part.table in unlogged
    return added


def _for_scratch(text: str) -> str:
    """The migration, applied to temporary tables. Those cannot be unlogged as well."""
    text = text.replace("public.", "pg_temp.").replace("'public'", "pg_my_temp_schema()::regnamespace::text")
    return text.replace("create unlogged table", "create table")


def together(added: dict[str, Catalogue]) -> Catalogue:
    """What all of these migrations make."""
    return {key: part for parts in added.values() for key, part in parts.items()}


def name_of(part: Part) -> str:
    """Its name as SQL reads it."""
    return part.name if _PLAIN_NAME.match(part.name) else '"' + part.name.replace('"', '""') + '"'


def of_table(catalogue: Catalogue, table: str, kind: str) -> dict[str, Part]:
    return {part.name: part for part in catalogue.values() if part.table == table and part.kind == kind}
