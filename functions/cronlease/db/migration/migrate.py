"""Applies schema/: migrations once, in order, remembered by hash; functions and views every time.

All of it in one transaction under one lock, so any number of processes may do it at once and none sees half.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cronlease.db.connection import ask_sync, send_sync
from cronlease.db.conninfo import advised, connect_sync
from cronlease.db.functions import Query
from cronlease.db.migration import adopt
from cronlease.db.migration.catalogue import TABLE, made_by, tables_of, wanted
from cronlease.db.migration.notes import A_ROW, answers_a_boolean, notes
from cronlease.db.migration.replace import closing_of, query, replace
from cronlease.errors import Contended, DatabaseTrouble, NotPermitted

_PACKAGE = Path(__file__).parents[2]


class MigrationError(Exception):
    """The schema could not be applied; nothing was changed. One sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """One file of schema/: its name without the ending, and its text with line ends made equal everywhere."""

    name: str
    text: str

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def closing(self) -> str:
        """Takes a function from everybody: it is made open to all, and may act with the rights of its owner."""
        is_function = "create or replace function" in self.text
        return f"revoke all on function public.{self.name} from public" if is_function else ""


def _nobody(_done: int, _of: int) -> None: ...


def _unheard(_note: str) -> None: ...


def migrate(
    url: str,
    told: Callable[[int, int], None] = _nobody,
    *,
    roles: bool = False,
    noted: Callable[[str], None] = _unheard,
) -> list[str]:
    """Brings the database up to schema/; answers the names of the migrations it applied. `told` learns after each
    file how many are done, of how many; `noted` gets a line for everything else a person should know. Roles: also
    what roles.sql says, from then on by every migrate."""
    return _locked(url, lambda conn: _apply(conn, told, noted, roles=roles))


def create_if_absent(url: str, noted: Callable[[str], None] = _unheard) -> list[str]:
    """The same for a first run: only where nothing of ours exists yet, or what an older generation left. What is half
    there is left to a person."""

    def apply_to_nothing(conn: Any) -> list[str]:
        there = state(conn)
        if there == "complete":
            # Another first run was faster.
            return []
        if there == "partial":
            raise MigrationError("part of the schema is missing")
        return _apply(conn, noted=noted)

    return _locked(url, apply_to_nothing)


def schema_files(folder: str) -> list[SchemaFile]:
    """The files of schema/<folder> in order: from the wheel's copy, or from the checkout."""
    for place in (_PACKAGE / "schema", _PACKAGE.parent.parent / "schema"):
        if (place / folder).is_dir():
            found = sorted((place / folder).glob("*.sql"))
            return [SchemaFile(path.stem, path.read_text("utf-8")) for path in found]
    raise MigrationError("schema/ was not found: install cronlease from its wheel, or run from a checkout")


def functions_and_views() -> list[SchemaFile]:
    """In the order in which they are applied: views may call functions, never the other way round, since functions
    are not looked into while they are made."""
    return sorted(schema_files("functions"), key=lambda file: "create or replace view" in file.text)


def state(conn: Any) -> str:
    """What of ours is there: absent, adoptable, partial or complete."""
    return str(ask_sync(conn, query("migrate_state")))


def pending(conn: Any) -> list[SchemaFile]:
    """The migrations that this database has yet to see; raises MigrationError for one that cannot be trusted."""
    known, files = _ledger(conn), schema_files("migrations")
    for file in files:
        if file.name not in known:
            continue
        if known[file.name] != file.hash:
            raise MigrationError(
                f"migration {file.name} was changed after it was applied: restore its text and write a new migration"
            )
        if missing := ask_sync(
            conn, query("migrate_missing", {"names": [f"public.{name}" for name in TABLE.findall(file.text)]})
        ):
            raise MigrationError(
                f"table {missing} is gone although {file.name} was applied: restore it, or to have an empty one"
                f" delete that row of cronlease_migrations and migrate again"
            )
    return [file for file in files if file.name not in known]


def from_elsewhere(conn: Any) -> list[str]:
    """Migrations that this database has seen and that are not in schema/: of a newer version."""
    return sorted(_ledger(conn).keys() - {file.name for file in schema_files("migrations")})


def _ledger(conn: Any) -> dict[str, str]:
    """Name -> hash of what was applied."""
    if not has_ledger(conn):
        return {}
    found: dict[str, str] = ask_sync(conn, query("migrate_ledger"))
    return found


def has_ledger(conn: Any) -> bool:
    return ask_sync(conn, query("migrate_missing", {"names": ["public.cronlease_migrations"]})) is None


def absent(conn: Any, names: list[str]) -> list[str]:
    """Those of the names that nothing in the schema has."""
    taken: list[str] = ask_sync(conn, query("migrate_names", {"names": names}))
    return [name for name in names if name not in taken]


def record_of(file: SchemaFile) -> str:
    """The statement that puts the migration into the ledger, in full."""
    text = query("migrate_record").text.strip()
    return text % {"name": f"'{file.name}'", "hash": f"'{file.hash}'"}


def _locked(url: str, work: Callable[[Any], list[str]]) -> list[str]:
    try:
        conn = connect_sync(url)
        try:
            send_sync(conn, "begin isolation level read committed; set local lock_timeout = '30s'")
            ask_sync(conn, _LOCK)
            # From here waiting would make every hit wait behind us.
            send_sync(conn, "set local lock_timeout = '5s'; set local check_function_bodies = off")
            applied = work(conn)
            send_sync(conn, "commit")
        finally:
            conn.close()
    except adopt.Refusal as refusal:
        raise MigrationError(str(refusal)) from refusal
    except Contended as trouble:
        sentence = "the schema is in use or another migration is running: try again in a moment"
        raise MigrationError(sentence) from trouble
    except NotPermitted as trouble:
        raise MigrationError(f"{trouble}: run `cronlease migrate` as the owner of the schema") from trouble
    except DatabaseTrouble as trouble:
        raise MigrationError(advised(trouble)) from trouble
    return applied


def _apply(
    conn: Any,
    told: Callable[[int, int], None] = _nobody,
    noted: Callable[[str], None] = _unheard,
    *,
    roles: bool = False,
) -> list[str]:
    there, files = state(conn), schema_files("migrations")
    was_boolean = answers_a_boolean(conn)
    missing, replaced = pending(conn), functions_and_views()
    new = absent(conn, made_by(files))
    by = _made(conn, there, files, noted)
    known = adopt.recognised(conn, by) if by and not has_ledger(conn) else []
    migrations = [file for file in missing if file.name not in known]
    if by:
        adopt.perform(conn, adopt.before(conn, by, migrations), noted, adopting=True)
    total = len(migrations) + len(replaced)
    for done, file in enumerate(migrations, start=1):
        _send(conn, file)
        told(done, total)
    for file in missing:
        ask_sync(conn, query("migrate_record", {"name": file.name, "hash": file.hash}))
    if by:
        adopt.perform(conn, adopt.after(conn, by), noted)
    send_sync(conn, closing_of(new, tables_of(files)))
    for done, file in enumerate(replaced, start=len(migrations) + 1):
        replace(conn, file)
        told(done, total)
    if there in ("adoptable", "partial"):
        adopt.try_out(conn)
    if roles or ask_sync(conn, query("migrate_roles")):
        for file in schema_files("."):
            _send(conn, file)
    for note in [A_ROW] * was_boolean + list(notes(conn)):
        noted(note)
    return [file.name for file in migrations]


def _made(conn: Any, there: str, files: list[SchemaFile], noted: Callable[[str], None]) -> adopt.Made:
    """What the tables are compared with; empty where there is nothing to compare, or no way to."""
    if there == "absent" or from_elsewhere(conn):
        # In a database of a newer version nothing that it made is put back to what it was.
        return {}
    try:
        return wanted(conn, files)
    except NotPermitted as trouble:
        if there != "complete":
            raise
        noted(f"the tables were not compared: {trouble}")
        return {}


def _send(conn: Any, file: SchemaFile) -> None:
    try:
        send_sync(conn, file.text)
    except NotPermitted:
        raise
    except DatabaseTrouble as trouble:
        raise MigrationError(f"{file.name}.sql: {trouble}") from None


_LOCK: Query[None] = Query("select pg_advisory_xact_lock(3, 0)", {}, lambda _: None)
