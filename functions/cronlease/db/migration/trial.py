"""Triggers and rules of others on tables that are adopted: disabled while those are changed, and then tried out, so
that one that would make every run fail is named before the migration is committed."""

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from cronlease.db.ask import send_sync
from cronlease.db.migration.adopt import Made, detail_of
from cronlease.db.migration.catalogue import Difference, together
from cronlease.db.migration.packages import MigrationError
from cronlease.db.migration.schema_files import Packages, files_named
from cronlease.db.questions import Questions
from cronlease.db.schema import in_schema, schema
from cronlease.errors import Contended, DatabaseTrouble, SchemaMissing

_ask = Questions(__file__)
# Makes the server plan the functions of a trial anew: a plan that a rule has emptied refers to no table.
_FUNCTIONS = ("ensure_schedule", "take_refresh_lock", "finish_refresh_run")
_FRESH = ";".join(f"alter function public.{name} volatile" for name in _FUNCTIONS)


class Reaction(NamedTuple):
    """A trigger or a rule on one of our tables that is not ours."""

    of_table: str
    kind: str
    name: str
    # As `alter table ... enable` says it: empty, replica or always.
    how: str
    function: str | None

    @property
    def silencing(self) -> str:
        return f"alter table {schema()}.{self.of_table} disable {self.kind} {self.name}"

    @property
    def waking(self) -> str:
        return f"alter table {schema()}.{self.of_table} enable {self.how}{self.kind} {self.name}"

    @property
    def removal(self) -> str:
        return f"drop {self.kind} {self.name} on {schema()}.{self.of_table}"

    @property
    def searching(self) -> str:
        """Makes the function of a trigger find what it names without a schema, whoever calls it."""
        function = self.function or ""
        function = function if "." in function.partition("(")[0] else f"{schema()}.{function}"
        return f"alter function {function} set search_path = {schema()}"


def reactions(conn: Any, by: Made) -> list[Reaction]:
    """Those on the tables of these migrations."""
    parts = together(by).values()
    tables = sorted({part.table for part in parts})
    ours = [part.name for part in parts if part.kind == "trigger"]
    return [Reaction(**each) for each in _ask(conn, "reactions", tables=tables, ours=ours)]


def silence(conn: Any, theirs: Iterable[Reaction]) -> None:
    """What migrate writes into the tables of others must not fire their triggers, which could undo it."""
    for each in theirs:
        send_sync(conn, each.silencing)


def wake(conn: Any, theirs: Iterable[Reaction]) -> None:
    for each in theirs:
        send_sync(conn, each.waking)


def try_out(conn: Any, theirs: Iterable[Reaction], packages: Packages = None) -> None:
    """Raises MigrationError unless a run can be claimed and ended on the adopted tables, and what the packages try
    themselves goes well. It names what is in the way, and the statement that helps. Leaves nothing behind."""
    text = "\n".join([_ask.texts["trial"], *(file.sql for file in files_named("trial", packages))])
    _trial = partial(_tried, conn, text)
    trouble = _trial()
    if trouble is None:
        return
    what = f"a run on these tables would fail: {trouble}{detail_of(trouble)}"
    diag = getattr(trouble.__cause__, "diag", None)
    if diag is not None and diag.constraint_name and diag.table_name:
        fix = f"alter table {schema()}.{diag.table_name} drop constraint {diag.constraint_name}"
        if _trial(fix) is None:
            raise MigrationError(Difference(what, fix=fix).sentence)
    for each in theirs:
        if _trial(f"{each.removal};{in_schema(_FRESH)}" if each.kind == "rule" else each.removal) is not None:
            continue
        what = f"{each.kind} {each.name} of {each.of_table} would make runs fail: {trouble}{detail_of(trouble)}"
        if each.function and isinstance(trouble, SchemaMissing) and _trial(each.searching) is None:
            raise MigrationError(
                Difference(f"{what}, since our functions search only pg_catalog", fix=each.searching).sentence
            )
        raise MigrationError(Difference(what, fix=each.removal).sentence)
    names = ", ".join(f"{each.kind} {each.name} of {each.of_table}" for each in theirs)
    raise MigrationError(f"{what}: change what forbids it{f' ({names})' if names else ''}, then migrate")


def _tried(conn: Any, text: str, preparation: str = "") -> DatabaseTrouble | None:
    """What goes wrong, if anything, in a trial after this statement."""
    send_sync(conn, "savepoint trial")
    try:
        send_sync(conn, f"{preparation};{text}")
    except Contended:
        raise
    except DatabaseTrouble as trouble:
        return trouble
    finally:
        send_sync(conn, "rollback to savepoint trial; release savepoint trial")
    return None
