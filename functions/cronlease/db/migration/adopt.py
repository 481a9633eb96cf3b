"""Tables that were there before: taken over by the migrations that grow them, or refused before anything is changed;
and tables of ours that somebody has changed since, put back.

Runs in migrate's transaction: when it refuses, nothing has happened.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from cronlease.db.connection import ask_sync, send_sync
from cronlease.db.functions import Query
from cronlease.db.migration.catalogue import TABLE, Catalogue, File, Part, present, together
from cronlease.db.migration.compare import adoptable, compare
from cronlease.db.migration.difference import Difference
from cronlease.errors import Contended, DatabaseTrouble, NotPermitted

Made = dict[str, Catalogue]


class Refusal(Exception):
    """The tables cannot be adopted. One sentence that says what to do."""


def recognised(conn: Any, by: Made) -> list[str]:
    """The migrations all of whose work is there already: for a database that has lost its ledger."""
    there = present(conn, _tables(together(by)))
    return [
        name
        for name, parts in by.items()
        if parts and all(_text(there.get(key)) == _text(part) for key, part in parts.items())
    ]


def _text(part: Part | None) -> str | None:
    return part and str(part.detail.get("text", part.detail.get("type", "")))


def before(conn: Any, by: Made, pending: Iterable[File]) -> list[Difference]:
    """What has to happen to the tables that are there before these migrations can be applied."""
    whole = together(by)
    there = present(conn, _tables(whole))
    found: list[Difference] = []
    for file in pending:
        for table in TABLE.findall(file.text):
            if (table, "table", table) not in there:
                continue
            if f"create table if not exists public.{table}" in file.text:
                found += adoptable(there, whole, table, _asking(conn))
            else:
                fix = f"alter table public.{table} rename to {table}_before"
                found.append(Difference(f"there is a table {table} that is not ours", fix=fix))
    return found


def after(conn: Any, by: Made, *, reads_rows: bool = True) -> list[Difference]:
    """How the tables of these migrations differ from what they made. Whoever may not read the rows is not told which
    of them are in the way."""
    whole = together(by)
    holds = _asking(conn) if reads_rows else lambda _table, _condition: False
    return list(compare(present(conn, _tables(whole)), whole, holds))


def perform(
    conn: Any, differences: list[Difference], noted: Callable[[str], None], *, adopting: bool = False
) -> None:
    """Removes the differences. Raises Refusal, which names the first that only a person can remove. A rule that
    somebody added to a table of ours is only noted: runs have lived with it."""
    for each in differences:
        if each.theirs and not adopting:
            noted(each.sentence)
    refused = [each.sentence for each in differences if each.fix and (adopting or not each.theirs)]
    if refused:
        more = f" (and {len(refused) - 1} more: `cronlease migrate --check` names them)" if len(refused) > 1 else ""
        raise Refusal(f"{refused[0]}{more}")
    for difference in differences:
        for statement in difference.statements:
            try:
                send_sync(conn, statement)
            except (Contended, NotPermitted):
                raise
            except DatabaseTrouble as trouble:
                said = f"{difference.said}, and `{statement}` fails: {trouble}{_detail(trouble)}"
                raise Refusal(f"{said}: remove what it says is in the way, then migrate") from trouble
        noted(f"repaired: {difference.said}")


def try_out(conn: Any) -> None:
    """Raises Refusal unless a run can be claimed and ended, and an opening written, on the adopted tables: a trigger
    or rule of somebody else may forbid it. Leaves nothing behind."""
    send_sync(conn, "savepoint trial")
    try:
        send_sync(conn, Path(__file__).with_name("adopt_trial.sql").read_text("utf-8"))
    except Contended:
        raise
    except DatabaseTrouble as trouble:
        said = f"a run on these tables would fail: {trouble}{_detail(trouble)}"
        raise Refusal(f"{said}: remove the trigger or rule that is in the way, then migrate") from trouble
    send_sync(conn, "rollback to savepoint trial; release savepoint trial")


def _detail(trouble: DatabaseTrouble) -> str:
    """What the server adds to its sentence: which row, which view."""
    diag = getattr(trouble.__cause__, "diag", None)
    detail = " ".join((getattr(diag, "message_detail", None) or "").split()).rstrip(".")
    return f" ({detail})" if detail else ""


def _tables(catalogue: Catalogue) -> set[str]:
    return {part.table for part in catalogue.values()}


def _asking(conn: Any) -> Callable[[str, str], bool]:
    def holds(table: str, condition: str) -> bool:
        text = f"select exists (select from public.{table} where {condition})"  # noqa: S608 (names of ours)
        return bool(ask_sync(conn, Query(text, {}, lambda row: row[0])))

    return holds
