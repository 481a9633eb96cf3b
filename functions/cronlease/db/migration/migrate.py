"""`cronlease migrate`: applies schema/. `_apply` has all of its steps, in order.

One transaction under one lock, so any number of processes may do it at the same time and none sees half.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from cronlease.db.ask import ask_sync, send_sync
from cronlease.db.conninfo import advised, connect_sync
from cronlease.db.migration import adopt
from cronlease.db.migration.catalogue import Catalogue, made_by_each
from cronlease.db.migration.replace import closing_of, replace
from cronlease.db.migration.schema_files import (
    MigrationError,
    SchemaFile,
    absent,
    functions_and_views,
    has_ledger,
    made_by,
    newer_migrations,
    pending,
    record,
    schema_files,
    tables_of,
)
from cronlease.db.queries import Query, first, load_queries
from cronlease.errors import Contended, DatabaseTrouble, NotPermitted

__all__ = [
    "MigrationError",
    "SchemaFile",
    "create_if_absent",
    "functions_and_views",
    "migrate",
    "schema_files",
    "state",
]

_SQL = load_queries(Path(__file__).with_suffix(".sql"))
_LOCK: Query[None] = Query("select pg_advisory_xact_lock(3, 0)", {}, lambda _: None)
_A_ROW = "acquire_refresh_lock now answers a row, not a boolean: clients read `.acquired`"
# Not done by migrate itself: other applications of the database may count on the right.
_OPEN = (
    "every role may create in the schema public, where a function of the same name could take our calls:"
    " `revoke create on schema public from public` closes it, and `cronlease migrate --roles` does that, too"
)
_ENCODING = (
    "the encoding of the database is {encoding}, and text that it cannot hold fails: use a database that was created"
    " with encoding 'UTF8'"
)

# Learns after each file how many are done, of how many.
Progress = Callable[[int, int], None]
# Gets a line for everything else a person should know.
Note = Callable[[str], None]


def _ignore(*_: object) -> None: ...


def migrate(url: str, progress: Progress = _ignore, *, roles: bool = False, note: Note = _ignore) -> list[str]:
    """Brings the database up to schema/; answers the names of the migrations it applied. Roles: also what roles.sql
    says, from then on by every migrate."""
    return _locked(url, lambda conn: _apply(conn, progress, note, roles=roles))


def create_if_absent(url: str, note: Note = _ignore) -> list[str]:
    """The same for a first run: only where nothing of ours exists yet, or what an older generation left. What is half
    there is left to a person."""

    def apply_to_nothing(conn: Any) -> list[str]:
        there = state(conn)
        if there == "complete":
            # Another first run was faster.
            return []
        if there == "partial":
            raise MigrationError("part of the schema is missing")
        return _apply(conn, _ignore, note)

    return _locked(url, apply_to_nothing)


def state(conn: Any) -> str:
    """What of ours is there: absent, adoptable, partial or complete."""
    return str(_ask(conn, "state"))


def _locked(url: str, work: Callable[[Any], list[str]]) -> list[str]:
    try:
        with closing(connect_sync(url)) as conn:
            send_sync(conn, "begin isolation level read committed; set local lock_timeout = '30s'")
            ask_sync(conn, _LOCK)
            # From here waiting would make every request wait behind us.
            send_sync(conn, "set local lock_timeout = '5s'; set local check_function_bodies = off")
            applied = work(conn)
            send_sync(conn, "commit")
    except Contended as trouble:
        sentence = "the schema is in use or another migration is running: try again in a moment"
        raise MigrationError(sentence) from trouble
    except NotPermitted as trouble:
        raise MigrationError(f"{trouble}: run `cronlease migrate` as the owner of the schema") from trouble
    except DatabaseTrouble as trouble:
        raise MigrationError(advised(trouble)) from trouble
    return applied


def _apply(conn: Any, progress: Progress, note: Note, *, roles: bool = False) -> list[str]:
    """Everything that migrate does, in order. Raises MigrationError: what cannot be adopted is refused first."""
    there, files, replaced = state(conn), schema_files("migrations"), functions_and_views()
    unseen, new = pending(conn), absent(conn, made_by(files))
    was_boolean = _ask(conn, "notes")["answers_a_boolean"]

    # Tables that were there before: what the migrations make of them is known before any is changed.
    expected = _expected(conn, there, files, note)
    known = adopt.recognised(conn, expected) if expected and not has_ledger(conn) else []
    migrations = [file for file in unseen if file.name not in known]
    if expected:
        adopt.perform(conn, adopt.before(conn, expected, migrations), note, adopting=True)

    # Migrations, each once.
    total = len(migrations) + len(replaced)
    for done, file in enumerate(migrations, start=1):
        _send(conn, file)
        progress(done, total)
    for file in unseen:
        record(conn, file)

    # Tables that somebody has changed since are put back, and new ones are taken from all but their owner.
    if expected:
        adopt.perform(conn, adopt.after(conn, expected), note)
    send_sync(conn, closing_of(new, tables_of(files)))

    # Functions and views, every time.
    for done, file in enumerate(replaced, start=len(migrations) + 1):
        replace(conn, file)
        progress(done, total)
    if there in ("adoptable", "partial"):
        adopt.try_out(conn)
    if roles or _ask(conn, "has_roles"):
        for file in schema_files("."):
            _send(conn, file)

    for line in _notes(conn, was_boolean=was_boolean):
        note(line)
    return [file.name for file in migrations]


def _expected(conn: Any, there: str, files: list[SchemaFile], note: Note) -> dict[str, Catalogue]:
    """What the tables are compared with; empty where there is nothing to compare, or no way to."""
    if there == "absent" or newer_migrations(conn):
        # In a database of a newer version nothing that it made is put back to what it was.
        return {}
    try:
        return made_by_each(conn, files)
    except NotPermitted as trouble:
        if there != "complete":
            raise
        note(f"the tables were not compared: {trouble}")
        return {}


def _send(conn: Any, file: SchemaFile) -> None:
    try:
        send_sync(conn, file.text)
    except NotPermitted:
        raise
    except DatabaseTrouble as trouble:
        raise MigrationError(f"{file.name}.sql: {trouble}") from None


def _notes(conn: Any, *, was_boolean: bool) -> Iterator[str]:
    """What is not wrong with the schema, and should still be known to whoever migrates."""
    if was_boolean:
        yield _A_ROW
    facts = _ask(conn, "notes")
    if facts["open"]:
        yield _OPEN
    if facts["encoding"] != "UTF8":
        yield _ENCODING.format(**facts)


def _ask(conn: Any, name: str) -> Any:
    return ask_sync(conn, Query(_SQL[name], {}, first))
