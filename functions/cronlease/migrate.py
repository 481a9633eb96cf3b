"""Applies schema/: migrations once, in order, remembered by hash; functions and views every time.

All of it in one transaction under one lock, so any number of processes may do it at once and none sees half.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cronlease.conninfo import advised, connect_plain
from cronlease.database import ask_plain, send_plain
from cronlease.trouble import Contended, DatabaseTrouble, Mismatch, NotPermitted
from cronlease.wall import Query

_PACKAGE = Path(__file__).parent
_TABLE = re.compile(r"^create (?:unlogged )?table (?:if not exists )?(public\.\w+)", re.MULTILINE)


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


def migrate(url: str, told: Callable[[int, int], None] = _nobody, *, roles: bool = False) -> list[str]:
    """Brings the database up to schema/; answers the names of the migrations it applied. `told` learns after each
    file how many are done, of how many. Roles: also what roles.sql says, from then on by every migrate."""
    return _locked(url, lambda conn: _apply(conn, told, roles=roles))


def create_if_absent(url: str) -> list[str]:
    """The same for a first run: only where nothing of ours exists yet. Anything half there is a person's to mend."""

    def apply_to_nothing(conn: Any) -> list[str]:
        there = state(conn)
        if there == "complete":
            # Another first run was faster.
            return []
        if there == "partial":
            raise MigrationError("part of the schema is missing")
        return _apply(conn)

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
    """What of ours is there: absent, partial or complete."""
    return str(ask_plain(conn, _query("migrate_state")))


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
        if missing := ask_plain(conn, _query("migrate_missing", {"names": _TABLE.findall(file.text)})):
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
    found: dict[str, str] = ask_plain(conn, _query("migrate_ledger")) if state(conn) != "absent" else {}
    return found


def record_of(file: SchemaFile) -> str:
    """The statement that puts the migration into the ledger, in full."""
    text = _query("migrate_record").text.strip()
    return text % {"name": f"'{file.name}'", "hash": f"'{file.hash}'"}


def grants_of(conn: Any, name: str) -> list[str]:
    """Statements that give again what is granted now on the function or view of that name."""
    found: list[str] = ask_plain(conn, _query("migrate_grants", {"name": name}))
    return found


def _locked(url: str, work: Callable[[Any], list[str]]) -> list[str]:
    try:
        conn = connect_plain(url)
        try:
            send_plain(conn, "begin isolation level read committed; set local lock_timeout = '30s'")
            ask_plain(conn, _LOCK)
            # From here waiting would make every hit wait behind us.
            send_plain(conn, "set local lock_timeout = '5s'; set local check_function_bodies = off")
            applied = work(conn)
            send_plain(conn, "commit")
        finally:
            conn.close()
    except Contended as trouble:
        sentence = "the schema is in use or another migration is running: try again in a moment"
        raise MigrationError(sentence) from trouble
    except NotPermitted as trouble:
        raise MigrationError(f"{trouble}: run `cronlease migrate` as the owner of the schema") from trouble
    except DatabaseTrouble as trouble:
        raise MigrationError(advised(trouble)) from trouble
    return applied


def _apply(conn: Any, told: Callable[[int, int], None] = _nobody, *, roles: bool = False) -> list[str]:
    migrations, replaced = pending(conn), functions_and_views()
    total = len(migrations) + len(replaced)
    for done, file in enumerate(migrations, start=1):
        _send(conn, file)
        ask_plain(conn, _query("migrate_record", {"name": file.name, "hash": file.hash}))
        told(done, total)
    for done, file in enumerate(replaced, start=len(migrations) + 1):
        _replace(conn, file)
        told(done, total)
    if roles or ask_plain(conn, _query("migrate_roles")):
        for file in schema_files("."):
            _send(conn, file)
    return [file.name for file in migrations]


def _send(conn: Any, file: SchemaFile) -> None:
    try:
        send_plain(conn, file.text)
    except NotPermitted:
        raise
    except DatabaseTrouble as trouble:
        raise MigrationError(f"{file.name}.sql: {trouble}") from None


def _replace(conn: Any, file: SchemaFile) -> None:
    """Creates the function or view in its present form; older signatures are dropped, grants are given again."""
    name = {"name": file.name}
    grants = grants_of(conn, file.name)
    before: list[str] = ask_plain(conn, _query("migrate_signatures", name))
    send_plain(conn, "savepoint before")
    try:
        send_plain(conn, file.text)
    except Mismatch:
        # Same name and arguments, another result: that cannot be replaced in place.
        send_plain(conn, "rollback to savepoint before")
        for statement in ask_plain(conn, _query("migrate_drops", {**name, "among": before})):
            send_plain(conn, statement)
        send_plain(conn, file.text)
    send_plain(conn, "release savepoint before")
    for statement in [*ask_plain(conn, _query("migrate_drops", {**name, "among": before})), *grants]:
        send_plain(conn, statement)
    if file.closing:
        send_plain(conn, file.closing)


def _query(file: str, params: dict[str, Any] | None = None) -> Query[Any]:
    """One of the questions beside this module: each answers one value."""
    return Query((_PACKAGE / f"{file}.sql").read_text("utf-8"), params or {}, lambda row: row[0])


_LOCK: Query[None] = Query("select pg_advisory_xact_lock(3, 0)", {}, lambda _: None)
