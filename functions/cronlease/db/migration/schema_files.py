"""The files of schema/, and the ledger: which of its migrations a database has seen."""

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from cronlease.db.migration.packages import APART, OURS, MigrationError, folder_of, installed
from cronlease.db.questions import Questions
from cronlease.db.schema import in_schema, schema

_ask = Questions(__file__)
_CREATES_TABLE = re.compile(r"^create (?:unlogged )?table (?:if not exists )?public\.(\w+)", re.MULTILINE)
_GROWS_TABLE = re.compile(r"^create table if not exists public\.(\w+) \(\n(.*?)^\)", re.MULTILINE | re.DOTALL)
_CREATES = re.compile(
    r"^create (?:or replace )?(?:unlogged )?(?:table|function) (?:if not exists )?public\.(\w+)", re.MULTILINE
)

# None: all that are installed.
Packages = Collection[str] | None


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """One file of schema/: its name without the ending, and its text, with the same line ends everywhere."""

    name: str
    text: str
    package: str = OURS

    @property
    def sql(self) -> str:
        """What is sent: the text with the name of our schema in it. The hash is of the text as it is in the file."""
        return in_schema(self.text)

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def tables(self) -> list[str]:
        """The tables that it creates."""
        return _CREATES_TABLE.findall(self.text)

    @property
    def adopts(self) -> dict[str, list[str]]:
        """The tables that it grows if they are there already, each with the columns that it begins with."""
        return {
            name: re.findall(r"^  (?!primary key)(\w+) ", columns, re.MULTILINE)
            for name, columns in _GROWS_TABLE.findall(self.text)
        }

    @property
    def is_view(self) -> bool:
        return "create or replace view" in self.text

    @property
    def closing(self) -> str:
        """Revokes a function from everybody: SQL creates it open to all, and it may act with its owner's rights."""
        is_function = "create or replace function" in self.text
        return f"revoke all on function {schema()}.{self.name} from public" if is_function else ""


def schema_files(folder: str, packages: Packages = None) -> list[SchemaFile]:
    """The files of that folder of these packages, in the order in which they are applied. Raises MigrationError."""
    return [
        SchemaFile(path.stem, path.read_text("utf-8"), package)
        for package in packages or installed()
        for path in sorted((folder_of(package) / folder).glob("*.sql"))
    ]


def files_named(name: str, packages: Packages = None) -> list[SchemaFile]:
    """The one file of that name of each of these packages that has it."""
    return [file for file in schema_files(".", packages) if file.name == name]


def functions_and_views(packages: Packages = None) -> list[SchemaFile]:
    """In the order in which they are applied: views may call functions, never the other way round, since functions
    are not checked while they are created."""
    return sorted(schema_files("functions", packages), key=lambda file: file.is_view)


def before_tables(replaced: Iterable[SchemaFile], migrations: Iterable[SchemaFile]) -> list[SchemaFile]:
    """The functions that can be replaced before these migrations are applied: their signatures name nothing that the
    migrations make. Their bodies are not checked."""
    made = re.compile(rf"\b({'|'.join(made_by(migrations)) or '(?!)'})\b")
    return [file for file in replaced if not file.is_view and not made.search(file.text.partition("$$")[0])]


def tables_of(files: Iterable[SchemaFile]) -> list[str]:
    return [name for file in files for name in file.tables]


def made_by(files: Iterable[SchemaFile]) -> list[str]:
    """The tables and functions that these migrations create."""
    return [name for file in files for name in _CREATES.findall(file.text)]


def pending(conn: Any, packages: Packages = None) -> list[SchemaFile]:
    """The migrations of these packages that this database has yet to see; raises MigrationError if the ledger is
    wrong."""
    applied, files = _applied(conn), schema_files("migrations", packages)
    for file in files:
        if file.name not in applied:
            continue
        if applied[file.name] != file.hash:
            raise MigrationError(
                f"migration {file.name} was changed after it was applied: restore its text and write a new migration"
            )
        if missing := _missing_table(conn, file.tables):
            raise MigrationError(
                f"table {missing} is gone although {file.name} was applied: restore it, or delete"
                " that row of cronlease_migrations and migrate again to get an empty one"
            )
    return [file for file in files if file.name not in applied]


def newer_migrations(conn: Any) -> list[str]:
    """Migrations of a newer version: this database has seen them, and they are not in schema/. Those of a package
    that is not installed here are left out."""
    if not has_ledger(conn):
        return []
    known = [file.name for file in schema_files("migrations")]
    newer: list[str] = _ask(conn, "newer", known=known, packages=list(installed()))
    return newer


def packages_in(conn: Any) -> set[str]:
    """The packages of which this database has seen a migration, or has a table, if the role may not read the
    ledger."""
    files = schema_files("migrations")
    if has_ledger(conn) and not _ask(conn, "ledger_is_readable"):
        there = set(tables_of(files)) - set(absent(conn, tables_of(files)))
        return {file.package for file in files if there & set(file.tables)}
    seen = _applied(conn)
    return {file.package for file in files if file.name in seen}


def wanted(conn: Any, declared: Packages) -> tuple[str, ...]:
    """The packages that belong in this database: those that are declared and those that are there already; all that
    are installed if nobody declares any."""
    if declared is None:
        return installed()
    there = packages_in(conn)
    return tuple(package for package in installed() if package in there or package in declared)


def adopted_tables(packages: Packages = None) -> list[str]:
    """The tables that migrations grow if they are there already."""
    return [name for file in schema_files("migrations", packages) for name in file.adopts]


def has_ledger(conn: Any) -> bool:
    return _missing_table(conn, ["cronlease_migrations"]) is None


def record_of(file: SchemaFile) -> str:
    """The statement that puts the migration into the ledger."""
    return _ask.texts["record"].strip() % {"name": f"'{file.name}'", "hash": f"'{file.hash}'"}


def labels_of(files: Iterable[SchemaFile]) -> str:
    """The statement that records in the ledger which package each of these migrations belongs to."""
    pairs = ", ".join(f"('{file.name}', '{file.package}')" for file in files)
    return _ask.texts["label"].strip().replace("{pairs}", pairs)


def absent(conn: Any, names: list[str]) -> list[str]:
    """Those of the names that nothing in the schema has."""
    taken = _ask(conn, "taken_names", names=names)
    return [name for name in names if name not in taken]


def _applied(conn: Any) -> dict[str, str]:
    """The hashes of the applied migrations by name."""
    if not has_ledger(conn):
        return {}
    if not _ask(conn, "ledger_is_ours"):
        raise MigrationError(
            f"there is a table cronlease_migrations that is not ours: {APART}, or change that with"
            f" `alter table {schema()}.cronlease_migrations rename to cronlease_migrations_before`, then migrate"
        )
    applied: dict[str, str] = _ask(conn, "applied")
    return applied


def _missing_table(conn: Any, names: list[str]) -> str | None:
    """The first of these tables that is not there."""
    missing: str | None = _ask(conn, "missing_table", names=[f"{schema()}.{name}" for name in names])
    return missing
