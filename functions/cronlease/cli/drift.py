"""How far a database is from schema/: missing migrations, tables that differ from what the migrations made, functions
and views that differ from their files.

Changes nothing. To compare, each file is created once more in pg_temp, in a transaction that is rolled back, so the
server itself parses it. That blocks nobody and needs no more rights than reading does.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from cronlease.db.ask import send_sync
from cronlease.db.conninfo import SyncConnection
from cronlease.db.migration import adopt
from cronlease.db.migration.bearers import bearers, older, refusals
from cronlease.db.migration.catalogue import Difference as OfTable
from cronlease.db.migration.catalogue import made_by_each
from cronlease.db.migration.migrate import has_schema, state
from cronlease.db.migration.replace import closing_of, grants_of
from cronlease.db.migration.schema_files import (
    Packages,
    SchemaFile,
    absent,
    functions_and_views,
    labels_of,
    made_by,
    newer_migrations,
    pending,
    record_of,
    schema_files,
    wanted,
)
from cronlease.db.migration.trial import Reaction, reactions
from cronlease.db.questions import Questions
from cronlease.db.schema import in_schema, schema
from cronlease.errors import DatabaseTrouble, NotPermitted

_ask = Questions(__file__)
MIGRATE = "run `cronlease migrate` as the owner of the schema"
REPAIR = (
    "a table is not as the migrations left it: put back by hand what is missing, or restore the table from a backup,"
    " and then migrate"
)
BY_HAND = "run the statement of each line that names one, as the owner of the object in question, and then migrate"
_BEGIN = "begin read write; set local check_function_bodies = off; set local lock_timeout = '5s'"
_PLACE = re.compile(r"^(create or replace (?:function|view) )public\.", re.MULTILINE)


class Difference(NamedTuple):
    """A function or view that is missing, differs from its file, or has an older signature beside it."""

    file: SchemaFile
    what: str
    # Statements to run before and after the file, if it cannot be replaced in place.
    before: list[str]
    after: list[str]
    can_be_made: bool = True

    @property
    def is_new(self) -> bool:
        """Whether it is created rather than replaced: default privileges then grant it to others."""
        return self.what == "is missing" or bool(self.before)


class Drift(NamedTuple):
    migrations: list[SchemaFile]
    differences: list[Difference]
    # Migrations that only a newer version knows: replacing its functions with ours would be a step back.
    newer: list[str]
    tables: list[OfTable]
    # Objects that the missing migrations make.
    new: list[str]
    # Triggers and rules of others, which are disabled while migrations write.
    theirs: list[Reaction]
    # Whether the schema itself must be created first.
    makes_schema: bool

    @property
    def is_there(self) -> bool:
        return bool(self.migrations or self.differences or self.newer or self.tables)

    @property
    def fix(self) -> str:
        if self.newer:
            return "install the version that made the database: migrating with this one would be a step back"
        if not all(difference.can_be_made for difference in self.differences):
            return REPAIR
        return BY_HAND if self.refused else MIGRATE

    @property
    def refused(self) -> list[str]:
        """Why migrate would refuse, one sentence each. Somebody else's constraints only hinder migrations."""
        return [each.sentence for each in self.tables if each.fix and (self.migrations or not each.theirs)]

    def sentences(self) -> list[str]:
        """One for each difference; those that migrate refuses to repair come last, and say so."""
        repaired = [each.sentence for each in self.tables if each.sentence not in self.refused]
        return [
            *(f"migration {name} is of a newer version" for name in self.newer),
            *(f"migration {file.name} is missing" for file in self.migrations),
            *repaired,
            *(f"{difference.file.name} {difference.what}" for difference in self.differences),
            *(f"migrate refuses: {sentence}" for sentence in self.refused),
        ]

    def script(self, *then: str) -> str:
        """What migrate would run, for a person to read or for psql."""
        if not (self.migrations or self.differences or self.tables or then):
            return ""
        parts = ["begin;", *([f"create schema {schema()};"] if self.makes_schema else [])]
        parts += ["set local check_function_bodies = off;", *(f"{each.silencing};" for each in self.theirs)]
        for each in self.tables:
            parts += [f"-- {each.sentence}", *(f"{statement};" for statement in each.statements)]
        for file in self.migrations:
            parts += [f"-- migration {file.name}", file.sql.strip(), f"{record_of(file)};"]
        if self.migrations:
            parts.append(f"{labels_of(self.migrations)};")
        parts += [f"{each.waking};" for each in self.theirs]
        for difference in self.differences:
            parts += [f"-- {difference.file.name} {difference.what}", *(f"{each};" for each in difference.before)]
            parts.append(difference.file.sql.strip())
        made = [difference.file.name for difference in self.differences if difference.is_new]
        if self.new or made:
            parts.append(f"{closing_of([*self.new, *made], self.new)};")
        for difference in self.differences:
            parts += [f"{each};" for each in [*difference.after, difference.file.closing] if each]
        return "\n\n".join([*parts, *(text.strip() for text in then), "commit;"])


def drift(conn: SyncConnection, declared: Packages = None, *, ledger: bool = True) -> Drift:
    """Raises MigrationError for a ledger that cannot be trusted, and DatabaseTrouble. `ledger=False` is for roles
    that may not read the ledger, which is everybody but the owner: missing migrations then go unnoticed."""
    packages = wanted(conn, declared)
    with _rolled_back(conn):
        migrations, newer = (pending(conn, packages), newer_migrations(conn)) if ledger else ([], [])
        # A newer version has changed the tables for its own needs.
        by = {} if newer else made_by_each(conn, schema_files("migrations", packages))
        tables = _of_tables(conn, by, migrations, reads_rows=ledger)
        theirs = reactions(conn, by) if migrations and state(conn, packages) in ("adoptable", "partial") else []
        namesakes = bearers(conn, migrations, packages)
        foreign = {each.name for each in namesakes if each.whose == "foreign"}
        taken_over = {each.name for each in older(namesakes)}
        files = [file for file in functions_and_views(packages) if file.name not in foreign]
        definitions, refused = _definitions(conn, files)
        differences = [each for file in files if (each := _compared(conn, file, definitions))]
        for place, each in enumerate(differences):
            if each.file.name in taken_over:
                # Replaced as a whole, and nobody keeps a grant on it.
                each = each._replace(what="is the older generation's and is replaced", after=[])
            if not migrations and (why := refused.get(each.file.name)):
                # Every migration has run and no view depends on another, so a table lacks what the file needs.
                each = each._replace(what=f"cannot be made: {why}", can_be_made=False)
            differences[place] = each
        new = absent(conn, made_by(migrations))
        tables = [*refusals(namesakes), *tables]
        return Drift(migrations, differences, newer, tables, new, theirs, not has_schema(conn))


def _of_tables(conn: SyncConnection, by: adopt.Made, missing: list[SchemaFile], *, reads_rows: bool) -> list[OfTable]:
    """What migrate would repair in the tables before it applies the missing migrations, or refuse to repair."""
    names = {file.name for file in missing}
    seen = {name: parts for name, parts in by.items() if name not in names}
    return [*adopt.before(conn, by, missing), *adopt.after(conn, seen, reads_rows=reads_rows)]


@contextmanager
def _rolled_back(conn: SyncConnection) -> Iterator[None]:
    send_sync(conn, _BEGIN)
    try:
        yield
    finally:
        conn.rollback()


def _definitions(
    conn: SyncConnection, files: list[SchemaFile]
) -> tuple[dict[tuple[str, bool], list[dict[str, str]]], dict[str, str]]:
    """Definitions by name and by whether they are present or wanted; and why a file cannot be created, by name."""
    texts = {file.name: in_schema(_PLACE.sub(r"\1pg_temp.", file.text, count=1)) for file in files}
    refused = {}
    if _refusal(conn, "\n".join(texts.values())):
        # One of them refers to a missing table or column.
        refused = {name: why for name, text in texts.items() if (why := _refusal(conn, text))}
    by_place: dict[tuple[str, bool], list[dict[str, str]]] = {}
    for row in _ask(conn, "definitions", names=[file.name for file in files]):
        by_place.setdefault((row["name"], row["present"]), []).append(row)
    return by_place, refused


def _refusal(conn: SyncConnection, text: str) -> str:
    """Why the server refuses that text, or nothing; the transaction goes on either way."""
    send_sync(conn, "savepoint before")
    try:
        send_sync(conn, text)
    except NotPermitted:
        raise
    except DatabaseTrouble as trouble:
        send_sync(conn, "rollback to savepoint before")
        return str(trouble)
    return ""


def _compared(
    conn: SyncConnection, file: SchemaFile, definitions: dict[tuple[str, bool], list[dict[str, str]]]
) -> Difference | None:
    present, wanted = definitions.get((file.name, True), []), definitions.get((file.name, False), [])
    if not present:
        return Difference(file, "is missing", [], [])
    if [row["text"] for row in present] == [row["text"] for row in wanted]:
        return None
    same = [row for row in present if [row["text"]] == [each["text"] for each in wanted]]
    what = "has an older signature beside it" if same else "differs from its file"
    fits = [each["shape"] for each in wanted]
    before = [row["removal"] for row in present if [row["shape"]] != fits]
    return Difference(file, what, before, grants_of(conn, file.name) if before else [])
