"""Functions and views that have a name of ours: which of them are ours, which are the older generation's and are
taken over, and which are somebody else's and are never touched. The rule itself is in bearers.sql."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from cronlease.db.migration.catalogue import Difference
from cronlease.db.migration.packages import OURS, came_with, installed
from cronlease.db.migration.schema_files import Packages, SchemaFile, functions_and_views, schema_files, tables_of
from cronlease.db.questions import Questions
from cronlease.db.schema import schema

_ask = Questions(__file__)


class Bearer(NamedTuple):
    """A function or relation of our schema that has a name of ours."""

    name: str
    kind: str
    # As SQL names it, with the types of its arguments.
    object: str
    owner: str
    arguments: list[str]
    # The roles that may execute it, besides its owner, and the views that call it.
    users: list[str]
    used_by: list[str]
    whose: str


def bearers(conn: Any, pending: Iterable[SchemaFile], packages: Packages = None) -> list[Bearer]:
    """All of them, before these migrations of the packages are applied."""
    files, unseen = functions_and_views(packages), {file.name for file in pending}
    found = _ask(
        conn,
        "bearers",
        functions=[file.name for file in files if not file.is_view],
        views=[file.name for file in files if file.is_view],
        to_come=list(_to_come(unseen, packages)),
        tables=tables_of(schema_files("migrations", packages)),
    )
    return [Bearer(**each) for each in found]


def _to_come(unseen: Collection[str], packages: Packages) -> Iterator[str]:
    """Names that are not ours yet: those of a package of which this database has seen nothing, and those that came
    after version 0.1, with migrations that it has not seen."""
    files = schema_files("migrations", packages)
    last_seen = {file.package: file.name for file in files if file.name not in unseen}
    for package in packages or installed():
        if package != OURS and package not in last_seen:
            yield from (file.name for file in schema_files("functions", [package]))
            continue
        for migration, names in came_with(package).items():
            if last_seen.get(package, "") < migration:
                yield from names


def older(named: Iterable[Bearer]) -> list[Bearer]:
    """Those of the older generation, which ours replace."""
    return [each for each in named if each.whose == "older"]


def refusals(named: Iterable[Bearer]) -> Iterator[Difference]:
    """What a person has to move out of the way: things of others, and views that call what is replaced."""
    for each in named:
        if each.whose == "foreign":
            what = (
                f"{each.kind} {each.object} of the role {each.owner} has a name that cronlease needs,"
                " and is not cronlease's"
            )
            rename = f"alter {each.kind} {_qualified(each.object)} rename to {each.name}_before"
            yield Difference(what, fix=rename, foreign=True)
        elif each.whose == "older":
            for view in each.used_by:
                what = f"view {view} calls the older {each.object}, which is replaced"
                yield Difference(what, fix=f"drop view {_qualified(view)}")


def of_others(conn: Any, tables: list[str], replaced: Iterable[SchemaFile]) -> Iterator[Difference]:
    """Yields tables and functions that only their owner may change."""
    for each in _ask(conn, "of_others", tables=tables, functions=[file.name for file in replaced]):
        kind, thing, owner = each["kind"], each["object"], each["owner"]
        fix = f"alter {kind} {_qualified(thing)} owner to {each['migrator']}"
        yield Difference(f"{kind} {thing} belongs to the role {owner}, which could migrate instead", fix=fix)


def notes(named: Iterable[Bearer]) -> Iterator[str]:
    """What callers of the older functions have to know."""
    for each in older(named):
        if each.name == "acquire_refresh_lock":
            yield (
                f"acquire_refresh_lock now answers a row, not a boolean: clients read `.acquired`; its arguments were"
                f" ({', '.join(each.arguments)}) and are ({', '.join(_arguments(each.name))})"
            )
        elif each.name == "release_refresh_lock":
            yield (f"{each.object} was replaced: its arguments are now ({', '.join(_arguments(each.name))})")
        if each.users:
            yield (
                f"{', '.join(each.users)} may no longer execute {each.name}, which now acts for the owner of the"
                " tables: `cronlease migrate --roles` makes the roles that may"
            )


def _arguments(name: str) -> list[str]:
    """The arguments of our function, without those that have a default."""
    (text,) = (file.text for file in functions_and_views() if file.name == name)
    return re.findall(r"^  (p_\w+) (?!.* default)", text.partition("\n)")[0], re.MULTILINE)


def _qualified(name: str) -> str:
    return name if name.startswith(f"{schema()}.") else f"{schema()}.{name}"
