"""How the columns of a table differ from what the migrations make, and the statements that make them equal.

Values are kept: a type is changed only where every value has exactly one meaning in the new one.
"""

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from cronlease.db.migration.catalogue import Catalogue, Difference, Holds, Part, name_of, of_table
from cronlease.db.queries import load_queries
from cronlease.db.schema import schema
from cronlease.errors import DatabaseTrouble

_SQL = load_queries(Path(__file__).with_suffix(".sql"))
_TIME = "timestamp with time zone"
_SEQUENCE = re.compile(r"^nextval\('(.+)'::regclass\)$")
# What fills in a missing value of a column that has no default.
_FILLED_WITH = {("refresh_schedule", "action"): "function_name"}


def changed(
    present: Catalogue,
    wanted: Catalogue,
    table: str,
    holds: Holds,
    only: Collection[str] | None = None,
) -> Iterator[Difference]:
    """How the columns of the table, or `only` those, differ from what they should be."""
    have = of_table(present, table, "column")
    if (
        have
        and present[table, "table", table].detail["unlogged"]
        and not wanted[table, "table", table].detail["unlogged"]
    ):
        yield Difference(
            f"table {table} is unlogged, and a crash would empty it", (f"alter table {schema()}.{table} set logged",)
        )
    for column in of_table(wanted, table, "column").values():
        there = have.get(column.name)
        if only is not None and column.name not in only:
            continue
        if there is None:
            added = _addition(column)
            what = f"column {column.name} of {table} is missing"
            # If the table was ours, the values are gone, too: a person may have a backup.
            yield (
                Difference(what, (added,)) if only is not None else Difference(f"{what}, with its values", fix=added)
            )
        elif there.detail["generated"] == "v":
            fix = f"alter table {schema()}.{table} rename column {column.name} to {column.name}_before"
            yield Difference(f"column {column.name} of {table} is computed and cannot be written", fix=fix)
        else:
            using = _using(there, column)
            if using is None:
                yield _refused(there, column, holds)
                continue
            statements = _statements(there, column, using, holds)
            if using and there.detail["used_by"]:
                what = f"{_what(there, column)}, and cannot be changed while something uses it"
                yield Difference(what, fix="; ".join(there.detail["used_by"]))
            elif statements:
                yield Difference(_what(there, column), tuple(statements))


def key_columns(wanted: Catalogue, table: str) -> list[str]:
    constraints = of_table(wanted, table, "constraint").values()
    return [name for each in constraints if each.detail["type"] == "p" for name in each.detail["columns"]]


def _addition(column: Part) -> str:
    detail = column.detail
    default = f" default {detail['default']}" if detail["default"] else ""
    default = " generated always as identity" if detail["identity"] else default
    needed = " not null" if detail["not_null"] else ""
    return f"alter table {schema()}.{column.table} add column {column.name} {detail['type']}{default}{needed}"


def _using(there: Part, column: Part) -> str | None:
    """The expression that turns the column into the type it should have; empty if it has that type, None if
    converting it would be a guess."""
    have, want = there.detail, column.detail["type"]
    if have["type"] == want:
        return ""
    name = there.name
    if want == "text" and (have["category"] in "SENB" or have["base"] == "uuid"):
        return f"{name}::text"
    if want == _TIME and have["base"] == "timestamptz":
        return f"{name}::timestamptz"
    if want == _TIME and have["base"] in ("timestamp", "date"):
        # Without a zone it means another moment in every session: take the zone of the session that wrote now().
        return f"{name}::timestamp at time zone {_literal(have['zone'])}"
    if want in ("integer", "bigint") and have["base"] in ("int2", "int4", "int8"):
        return f"{name}::{want}"
    if want == "jsonb" and have["base"] == "json":
        return f"{name}::jsonb"
    return None


def own_times(present: Catalogue, wanted: Catalogue, table: str) -> Iterator[Difference]:
    """Times without a zone in columns that are not ours: the migration would read them as UTC."""
    ours = of_table(wanted, table, "column")
    for part in of_table(present, table, "column").values():
        if part.name not in ours and part.detail["base"] == "timestamp" and not part.detail["generated"]:
            what = f"column {part.name} of {table} has no time zone and is read as a time in {part.detail['zone']}"
            name = name_of(part)
            using = f"using {name} at time zone {_literal(part.detail['zone'])}"
            yield Difference(what, (f"alter table {schema()}.{table} alter column {name} type timestamptz {using}",))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _refused(there: Part, column: Part, holds: Holds) -> Difference:
    name, want = there.name, column.detail["type"]
    value = f"to_timestamp({name})" if want == _TIME and there.detail["category"] == "N" else f"{name}::{want}"
    alter = f"alter column {name}"
    # A uuid does not become a number: only renaming it makes room for ours.
    is_castable = want not in ("integer", "bigint", "boolean", "bytea") or there.detail["category"] in "SNB"
    fix = f"alter table {schema()}.{there.table} {alter} drop default, {alter} type {want} using {value}"
    if not is_castable or not _converts(there.table, value, holds):
        fix = f"alter table {schema()}.{there.table} rename column {name} to {name}_before"
    return Difference(f"column {name} of {there.table} is {there.detail['type']} and must be {want}", fix=fix)


def _converts(table: str, value: str, holds: Holds) -> bool:
    """Whether the value of every row can be converted."""
    try:
        holds(table, f"({value})::text = chr(1)")
    except DatabaseTrouble:
        return False
    return True


def _what(there: Part, column: Part) -> str:
    have, want = there.detail, column.detail
    what = f"column {there.name} of {there.table}"
    if have["type"] != want["type"]:
        zone = f" and is read as a time in the zone {have['zone']}" if have["zone"] else ""
        return f"{what} is {have['type']} instead of {want['type']}{zone}"
    if have["not_null"] != want["not_null"]:
        return f"{what} {'allows no null' if have['not_null'] else 'allows null'}"
    return f"{what} has another default"


def _statements(there: Part, column: Part, using: str, holds: Holds) -> list[str]:
    table, name, have, want = f"{schema()}.{there.table}", there.name, there.detail, column.detail
    alter = f"alter table {table} alter column {name}"
    same_default = not using and have["default"] == want["default"] and have["identity"] == want["identity"]
    statements = []
    if have["generated"]:
        statements.append(f"{alter} drop expression")
    if have["default"] and not same_default:
        statements.append(f"{alter} drop default")
        if owned := _SEQUENCE.match(have["default"]):
            statements.append(f"drop sequence {owned[1]}")
    if have["not_null"] and not want["not_null"]:
        statements.append(f"{alter} drop not null")
    if using:
        statements.append(f"{alter} type {want['type']} using {using}")
    if want["not_null"] and not have["not_null"]:
        statements += _filled(there, want, holds)
        statements.append(f"{alter} set not null")
    if not same_default:
        statements += _default(there, column)
    return statements


def _filled(there: Part, want: dict[str, str], holds: Holds) -> list[str]:
    """Fills in missing values by a change of type where it can: a trigger could undo an update."""
    table, name = there.table, there.name
    value = _FILLED_WITH.get((table, name)) or want["default"]
    if not (value or want["identity"]) or not holds(table, f"{name} is null"):
        return []
    if want["identity"]:
        return [_SQL["number_rows"].strip().format(table=table, name=name)]
    return [f"alter table {schema()}.{table} alter column {name} type {want['type']} using coalesce({name}, {value})"]


def _default(there: Part, column: Part) -> list[str]:
    table, name, want = f"{schema()}.{there.table}", there.name, column.detail
    alter = f"alter table {table} alter column {name}"
    if want["default"]:
        return [f"{alter} set default {want['default']}"]
    if not want["identity"]:
        return []
    if there.detail["identity"]:
        return [f"{alter} set generated always"]
    return [
        f"{alter} add generated always as identity",
        _SQL["continue_sequence"].strip().format(table=table, name=name),
    ]
