"""`cronlease migrate`: applies schema/. `_apply` has all of its steps, in order.

One transaction under one lock, so any number of processes may do it at the same time and none sees half.
"""

from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from itertools import count
from typing import Any

from cronlease.db.ask import send_sync
from cronlease.db.conninfo import advised, connect_sync
from cronlease.db.migration import adopt
from cronlease.db.migration.advice import advice
from cronlease.db.migration.bearers import bearers, notes, of_others, older, refusals
from cronlease.db.migration.catalogue import Catalogue, made_by_each
from cronlease.db.migration.packages import OURS, MigrationError, of_actions
from cronlease.db.migration.replace import closing_of, drop_set_aside, replace
from cronlease.db.migration.schema_files import (
    Packages,
    SchemaFile,
    absent,
    adopted_tables,
    before_tables,
    files_named,
    functions_and_views,
    has_ledger,
    labels_of,
    made_by,
    newer_migrations,
    pending,
    record_of,
    schema_files,
    tables_of,
    wanted,
)
from cronlease.db.migration.table_locks import lock_tables
from cronlease.db.migration.trial import reactions, silence, try_out, wake
from cronlease.db.questions import Questions
from cronlease.db.schema import PUBLIC, lock_key, schema
from cronlease.errors import Contended, DatabaseTrouble, NotPermitted

_ask = Questions(__file__)
_NO_SCHEMA = "there is no schema public, where everything of ours is: `create schema public`, then migrate"

# Called after each file: how many are done, and how many there are.
Progress = Callable[[int, int], None]
# Called with a line for everything else that a person should know.
Note = Callable[[str], None]


def _ignore(*_: object) -> None: ...


def migrate(
    url: str,
    progress: Progress = _ignore,
    *,
    packages: Packages = None,
    roles: bool = False,
    note: Note = _ignore,
) -> list[str]:
    """Brings the database up to schema/; returns the names of the migrations it applied. Packages: those that are
    declared; those in the database already are kept up to date, too. Roles: also applies roles.sql, as every later
    migrate then does."""
    applied = _locked(url, lambda conn: _apply(conn, packages, progress, note, roles=roles))
    # What cannot be dropped now goes with the next migrate.
    with suppress(DatabaseTrouble), closing(connect_sync(url)) as conn:
        drop_set_aside(conn, functions_and_views(), after_calls=True)
    return applied


def rehearse(url: str, packages: Packages = None) -> None:
    """Raises MigrationError where migrate would, and changes nothing: all of it is done and rolled back. It takes the
    same locks, so it is for what cannot be known otherwise: whether older tables can be adopted."""
    _locked(url, lambda conn: _apply(conn, packages, _ignore, _ignore), end="rollback")


def create_if_absent(url: str, note: Note = _ignore, packages: Packages = None) -> list[str]:
    """The same for a first run: only if nothing of ours, or of one of the packages, exists yet, or only what an older
    generation left. A schema that is half there is left to a person."""

    def apply_to_nothing(conn: Any) -> list[str]:
        there = state(conn, packages)
        if there == "complete" and not absent(conn, tables_of(schema_files("migrations", packages))):
            # Another first run was faster.
            return []
        if there == "partial":
            named = bearers(conn, pending(conn, packages), packages)
            adopt.perform(conn, list(refusals(named)), note, adopting=True)
            raise MigrationError("part of the schema is missing")
        return _apply(conn, packages, _ignore, note)

    return _locked(url, apply_to_nothing)


def create_for(url: str, actions: Iterable[str], note: Note = _ignore) -> list[str]:
    """Creates the tables, besides our own, that these actions need. Needs no right if all of them are there."""
    packages = of_actions(actions)
    if packages == (OURS,):
        return []
    try:
        with closing(connect_sync(url)) as conn:
            if not absent(conn, tables_of(schema_files("migrations", packages))):
                return []
    except DatabaseTrouble as trouble:
        raise MigrationError(advised(trouble)) from trouble
    return create_if_absent(url, note, packages)


def state(conn: Any, packages: Packages = None) -> str:
    """What of ours is there: absent, adoptable, partial or complete."""
    there = _ask(conn, "state", adopted=adopted_tables(packages))
    if there is None:
        if schema() == PUBLIC:
            raise MigrationError(_NO_SCHEMA)
        return "absent"
    return str(there)


def has_schema(conn: Any) -> bool:
    """Whether the schema is there, or is public: that is not created here, even if somebody dropped it."""
    return schema() == PUBLIC or _ask(conn, "has_schema") is True


def _locked(url: str, work: Callable[[Any], list[str]], end: str = "commit") -> list[str]:
    try:
        with closing(connect_sync(url)) as conn:
            send_sync(conn, "begin isolation level read committed; set local lock_timeout = '30s'")
            send_sync(conn, f"select pg_advisory_xact_lock({lock_key('migrate')}, 0)")
            # From here on, waiting would make every request wait behind us.
            send_sync(conn, "set local lock_timeout = '5s'; set local check_function_bodies = off")
            applied = work(conn)
            send_sync(conn, end)
    except Contended as trouble:
        sentence = "the schema is in use or another migration is running: try again in a moment"
        raise MigrationError(sentence) from trouble
    except NotPermitted as trouble:
        raise MigrationError(f"{trouble}: run `cronlease migrate` as the owner of the schema") from trouble
    except DatabaseTrouble as trouble:
        raise MigrationError(advised(trouble)) from trouble
    return applied


def _apply(conn: Any, declared: Packages, progress: Progress, note: Note, *, roles: bool = False) -> list[str]:
    """Everything that migrate does, in order. Raises MigrationError: what cannot be adopted is refused first."""
    packages = wanted(conn, declared)
    if not has_schema(conn):
        _create_schema(conn)
    there = state(conn, packages)
    files, replaced = schema_files("migrations", packages), functions_and_views(packages)
    unseen, new = pending(conn, packages), absent(conn, made_by(files))
    adopting = there in ("adoptable", "partial") or not set(tables_of(unseen)) <= set(new)
    named = bearers(conn, unseen, packages)
    taken_over = {each.name for each in older(named)}

    # What others made or own is refused before anything else is examined.
    adopt.perform(conn, [*refusals(named), *of_others(conn, tables_of(files), replaced)], note, adopting=True)

    # Tables that were there before: what the migrations make of them is known before any is changed.
    expected = {} if new == made_by(files) else _expected(conn, there, files, note)
    known = adopt.recognised(conn, expected) if expected and not has_ledger(conn) else []
    migrations = [file for file in unseen if file.name not in known]
    theirs = reactions(conn, expected) if adopting else []
    total, done = len(migrations) + len(replaced), count(1)

    def put(file: SchemaFile) -> None:
        replace(conn, file, adopting=file.name in taken_over)
        progress(next(done), total)

    # Hits wait while tables and views are locked: functions that do not need the migrations are replaced before that.
    drop_set_aside(conn, replaced)
    early = before_tables(replaced, migrations) if there == "complete" and not adopting else []
    for file in early:
        put(file)
    lock_tables(conn, [*(file.name for file in replaced if file.is_view), *tables_of(files)])
    silence(conn, theirs)
    if expected:
        adopt.perform(conn, adopt.before(conn, expected, migrations), note, adopting=True)

    # Migrations, each once.
    for file in migrations:
        _send(conn, file)
        progress(next(done), total)
    for file in unseen:
        send_sync(conn, record_of(file))
    send_sync(conn, labels_of(files))
    wake(conn, theirs)

    # Tables that somebody has changed since are put back, and new ones are taken from all but their owner.
    if expected:
        adopt.perform(conn, adopt.after(conn, expected), note)
    send_sync(conn, closing_of(new, tables_of(files)))

    # Functions and views, every time.
    for file in replaced:
        if file not in early:
            put(file)
    if adopting:
        try_out(conn, theirs, packages)
    if roles or _ask(conn, "has_roles"):
        for file in files_named("roles", packages):
            _send(conn, file)

    for line in [*notes(named), *advice(conn)]:
        note(line)
    return [file.name for file in migrations]


def _create_schema(conn: Any) -> None:
    try:
        send_sync(conn, f"create schema {schema()}")
    except NotPermitted as trouble:
        role, database = conn.info.user, conn.info.dbname
        raise MigrationError(
            f'{trouble}: let its owner run `create schema {schema()} authorization "{role}"`, or'
            f' `grant create on database "{database}" to "{role}"`, then migrate'
        ) from trouble


def _expected(conn: Any, there: str, files: list[SchemaFile], note: Note) -> dict[str, Catalogue]:
    """What the tables are compared with; empty if there is nothing to compare, or no way to do so."""
    if newer_migrations(conn):
        # A newer version has migrated this database: nothing that it made is put back.
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
        send_sync(conn, file.sql)
    except NotPermitted:
        raise
    except DatabaseTrouble as trouble:
        raise MigrationError(f"{file.name}.sql: {trouble}") from None
