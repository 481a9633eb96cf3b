"""Tables that were there before: taken over by the migrations that grow them, or refused before anything is changed;
and tables of ours that somebody has changed since, put back.

Runs in migrate's transaction: when it refuses, nothing has happened.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from cronlease.db.ask import ask_sync, send_sync
from cronlease.db.migration.catalogue import Catalogue, Difference, Part, present, together
from cronlease.db.migration.compare import adoptable, compare
from cronlease.db.migration.packages import MigrationError
from cronlease.db.migration.schema_files import SchemaFile
from cronlease.db.queries import Query, first
from cronlease.db.schema import schema
from cronlease.errors import Contended, DatabaseTrouble, NotPermitted

# What each migration makes, by its name.
Made = dict[str, Catalogue]


def recognised(conn: Any, by: Made) -> list[str]:
    """The migrations whose work is there already, all of it: for a database that has lost its ledger."""
    there = present(conn, _tables(together(by)))
    return [
        name
        for name, parts in by.items()
        if parts and all(_text(there.get(key)) == _text(part) for key, part in parts.items())
    ]


def _text(part: Part | None) -> str | None:
    return part and str(part.detail.get("text", part.detail.get("type", "")))


def before(conn: Any, by: Made, pending: Iterable[SchemaFile]) -> list[Difference]:
    """What has to happen to the tables that are there before these migrations can be applied."""
    whole = together(by)
    there = present(conn, _tables(whole))
    differences: list[Difference] = []
    for file in pending:
        for table in file.tables:
            if (table, "table", table) not in there:
                continue
            if table in file.adopts:
                differences += adoptable(there, whole, table, file.adopts[table], partial(_holds, conn))
            else:
                fix = f"alter table {schema()}.{table} rename to {table}_before"
                what = f"there is a table {table} that is not ours"
                differences.append(Difference(what, fix=fix, foreign=True))
    return differences


def after(conn: Any, by: Made, *, reads_rows: bool = True) -> list[Difference]:
    """How the tables of these migrations differ from what they made. A role that may not read the rows does not learn
    which of them are in the way."""
    whole = together(by)
    holds = partial(_holds, conn) if reads_rows else lambda _table, _condition: False
    return list(compare(present(conn, _tables(whole)), whole, holds))


def perform(conn: Any, differences: list[Difference], note: Callable[[str], None], *, adopting: bool = False) -> None:
    """Removes the differences. Raises MigrationError, which names the first that only a person can remove. A rule
    that somebody added to a table of ours is only noted: runs have lived with it."""
    for each in differences:
        if each.theirs and not adopting:
            note(each.sentence)
    refused = [each.sentence for each in differences if each.fix and (adopting or not each.theirs)]
    if refused:
        more = f" (and {len(refused) - 1} more: `cronlease migrate --check` names them)" if len(refused) > 1 else ""
        raise MigrationError(f"{refused[0]}{more}")
    for difference in differences:
        for statement in difference.statements:
            try:
                send_sync(conn, statement)
            except (Contended, NotPermitted):
                raise
            except DatabaseTrouble as trouble:
                raise MigrationError(
                    f"{difference.what}, and `{statement}` fails: {trouble}{detail_of(trouble)}:"
                    " change the rows or objects that it names, then migrate"
                ) from None
        note(f"repaired: {difference.what}")


def detail_of(trouble: DatabaseTrouble) -> str:
    """What the server adds to its sentence: which row, which view."""
    diag = getattr(trouble.__cause__, "diag", None)
    detail = " ".join((getattr(diag, "message_detail", None) or "").split()).rstrip(".")
    return f" ({detail})" if detail else ""


def _tables(catalogue: Catalogue) -> set[str]:
    return {part.table for part in catalogue.values()}


def _holds(conn: Any, table: str, condition: str) -> bool:
    text = f"select exists (select from {schema()}.{table} where {condition})"  # noqa: S608 (names of ours)
    send_sync(conn, "savepoint question")
    try:
        return bool(ask_sync(conn, Query(text, {}, first)))
    finally:
        send_sync(conn, "rollback to savepoint question; release savepoint question")
