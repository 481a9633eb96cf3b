"""How far a database is from schema/: migrations it has not seen, tables that are not as those made them, functions
and views that differ from their files.

Asks, and changes nothing: each function is made once more among the temporary things of a transaction that is rolled
back, so that the server itself says what it makes of the file. That takes no lock anybody waits for, and no more
rights than to look.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from cronlease.cli.questions import questions_of
from cronlease.db.ask import send_sync
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
from cronlease.db.schema import in_schema, schema
from cronlease.errors import DatabaseTrouble, NotPermitted

if TYPE_CHECKING:
    from psycopg import Connection

_ask = questions_of(__file__)
MIGRATE = "run `cronlease migrate` as the owner of the schema"
REPAIR = (
    "a table is not as the migrations left it: put back by hand what is gone, or restore the table from a backup,"
    " and then migrate"
)
BY_HAND = "run the statement of each line that names one, as the owner of what it is about, and then migrate"
_BEGIN = "begin read write; set local check_function_bodies = off; set local lock_timeout = '5s'"
_PLACE = re.compile(r"^(create or replace (?:function|view) )public\.", re.MULTILINE)


class Difference(NamedTuple):
    """A function or view that is not as its file says: missing, another one, or with an older one beside it."""

    file: SchemaFile
    what: str
    # Statements before and after the file's own, where it cannot be replaced in place.
    before: list[str]
    after: list[str]
    can_be_made: bool = True

    @property
    def is_new(self) -> bool:
        """Whether it is made rather than replaced: then default privileges give it away."""
        return self.what == "is missing" or bool(self.before)


class Drift(NamedTuple):
    migrations: list[SchemaFile]
    differences: list[Difference]
    # Migrations that only a newer version knows: its functions are there, and ours would be a step back.
    newer: list[str]
    tables: list[OfTable]
    # What the migrations that are missing make and is not there yet.
    new: list[str]
    # Whether the database was there before: then a rule of somebody else is refused, too.
    adopts: bool
    # Triggers and rules of others, which are silent while migrations write.
    theirs: list[Reaction]
    # Whether the schema itself has to be made first.
    makes_schema: bool

    @property
    def is_there(self) -> bool:
        return bool(self.migrations or self.differences or self.newer or self.tables)

    @property
    def fix(self) -> str:
        if self.newer:
            return "install the version that made the database: to migrate with this one would be a step back"
        if not all(difference.can_be_made for difference in self.differences):
            return REPAIR
        return BY_HAND if self.refused else MIGRATE

    @property
    def refused(self) -> list[str]:
        """Why migrate would refuse, one sentence each."""
        return [each.sentence for each in self.tables if each.fix and (self.adopts or not each.theirs)]

    def sentences(self) -> list[str]:
        """One for each thing that is behind; what migrate refuses comes last, and says so."""
        repaired = [each.sentence for each in self.tables if each.sentence not in self.refused]
        return [
            *(f"migration {name} is of a newer version" for name in self.newer),
            *(f"migration {file.name} is missing" for file in self.migrations),
            *repaired,
            *(f"{difference.file.name} {difference.what}" for difference in self.differences),
            *(f"migrate refuses: {sentence}" for sentence in self.refused),
        ]

    def script(self, *then: str) -> str:
        """What migrate would do about it, for a person to read or for psql."""
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


def drift(conn: "Connection[Any]", declared: Packages = None, *, ledger: bool = True) -> Drift:
    """Raises MigrationError for a ledger that cannot be trusted, and DatabaseTrouble. Without the ledger, which only
    the owner may read, it is about functions and views alone."""
    packages = wanted(conn, declared)
    with _rolled_back(conn):
        migrations, newer = (pending(conn, packages), newer_migrations(conn)) if ledger else ([], [])
        # A newer version has changed the tables as it needs them.
        by = {} if newer else made_by_each(conn, schema_files("migrations", packages))
        tables = _of_tables(conn, by, migrations, reads_rows=ledger)
        theirs = reactions(conn, by) if migrations and state(conn, packages) in ("adoptable", "partial") else []
        found = bearers(conn, migrations, packages)
        foreign = {each.name for each in found if each.whose == "foreign"}
        taken_over = {each.name for each in older(found)}
        files = [file for file in functions_and_views(packages) if file.name not in foreign]
        definitions, refused = _definitions(conn, files)
        differences = [each for file in files if (each := _compared(conn, file, definitions))]
        differences = [_taken_over(each) if each.file.name in taken_over else each for each in differences]
        if not migrations:
            # No view looks at another, and every migration has been: what a file lacks is gone from a table.
            differences = [_judged(each, refused.get(each.file.name)) for each in differences]
        new = absent(conn, made_by(migrations))
        tables = [*refusals(found), *tables]
        return Drift(migrations, differences, newer, tables, new, bool(migrations), theirs, not has_schema(conn))


def _of_tables(
    conn: "Connection[Any]", by: adopt.Made, missing: list[SchemaFile], *, reads_rows: bool
) -> list[OfTable]:
    """What migrate would do about the tables before the migrations that are missing, or refuse to."""
    names = {file.name for file in missing}
    seen = {name: parts for name, parts in by.items() if name not in names}
    return [*adopt.before(conn, by, missing), *adopt.after(conn, seen, reads_rows=reads_rows)]


def _taken_over(difference: Difference) -> Difference:
    """Of the older generation: replaced as a whole, and nobody keeps a right on it."""
    return difference._replace(what="is the older generation's and is replaced", after=[])


def _judged(difference: Difference, refusal: str | None) -> Difference:
    return difference._replace(what=f"cannot be made: {refusal}", can_be_made=False) if refusal else difference


@contextmanager
def _rolled_back(conn: "Connection[Any]") -> Iterator[None]:
    send_sync(conn, _BEGIN)
    try:
        yield
    finally:
        conn.rollback()


def _definitions(
    conn: "Connection[Any]", files: list[SchemaFile]
) -> tuple[dict[tuple[str, bool], list[dict[str, str]]], dict[str, str]]:
    """By name, and whether it is present or wanted; and of those that cannot be made, why not."""
    texts = {file.name: in_schema(_PLACE.sub(r"\1pg_temp.", file.text, count=1)) for file in files}
    refused = {}
    if _refusal(conn, "\n".join(texts.values())):
        # For one of them there is no table or column: it is not as its file says.
        refused = {name: why for name, text in texts.items() if (why := _refusal(conn, text))}
    by_place: dict[tuple[str, bool], list[dict[str, str]]] = {}
    for row in _ask(conn, "definitions", names=[file.name for file in files]):
        by_place.setdefault((row["name"], row["present"]), []).append(row)
    return by_place, refused


def _refusal(conn: "Connection[Any]", text: str) -> str:
    """Why that cannot be made, or nothing; the transaction then goes on as if nobody had tried."""
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
    conn: "Connection[Any]", file: SchemaFile, definitions: dict[tuple[str, bool], list[dict[str, str]]]
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
