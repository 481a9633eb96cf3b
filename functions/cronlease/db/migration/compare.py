"""How tables that are there differ from what the migrations make, and what makes them equal.

A difference has either statements, which migrate runs, or a fix: the statement that only a person may decide on,
because it drops something that is not ours or reads data in a way we would have to guess.
"""

from collections.abc import Collection, Iterator

from cronlease.db.migration.catalogue import Catalogue, Difference, Holds, Part, name_of, of_table
from cronlease.db.migration.columns import changed, key_columns, own_times
from cronlease.db.schema import schema

# Written by whoever declares a schedule, so a rule about these is the owner's own. Runs write the other columns.
_DECLARED = {"function_name"}


def compare(present: Catalogue, wanted: Catalogue, holds: Holds) -> Iterator[Difference]:
    """Every difference of the tables that are there, in the order in which the statements can be run."""
    for table in sorted({part.table for part in wanted.values()} & {part.table for part in present.values()}):
        if refusal := _cannot_be_ours(present[table, "table", table], present, wanted):
            yield refusal
            continue
        yield from _strangers(present, wanted, table)
        yield from changed(present, wanted, table, holds)
        yield from _keys(present, wanted, table, holds)
        yield from _rules(present, wanted, table)


def adoptable(
    present: Catalogue, wanted: Catalogue, table: str, base: Collection[str], holds: Holds
) -> Iterator[Difference]:
    """What an older table needs before the migration that grows it is applied. `base` are the columns without which
    that cannot begin: it adds the others itself."""
    if refusal := _cannot_be_ours(present[table, "table", table], present, wanted):
        yield refusal
        return
    have = of_table(present, table, "column")
    yield from _strangers(present, wanted, table)
    yield from _made_again(present, wanted, table)
    yield from changed(present, wanted, table, holds, only={*have, *base})
    if table == "refresh_schedule":
        yield from own_times(present, wanted, table)
    yield from _keys(present, wanted, table, holds, only="p")
    yield from _twins(present, wanted, table, holds)
    if {"locked_by", "locked_until"} & have.keys() and table == "refresh_schedule":
        yield from _half_locks(have, holds)


def _cannot_be_ours(table: Part, present: Catalogue, wanted: Catalogue) -> Difference | None:
    kinds = {"v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence", "p": "partitioned table"}
    kind, place = table.detail["relkind"], f"{schema()}.{table.name}"
    if kind != "r":
        word = kinds.get(kind, "relation")
        verb = "table" if kind in "pr" else word
        fix = f"alter {verb} {place} rename to {table.name}_before"
        return Difference(f"{table.name} is a {word}, not a table", fix=fix, foreign=True)
    if table.detail["inherits"]:
        fix = f"alter table {place} rename to {table.name}_before"
        what = f"table {table.name} inherits or is inherited, so no key of it is unique"
        return Difference(what, fix=fix, foreign=True)
    if table.detail["forced"]:
        fix = f"alter table {place} no force row level security"
        return Difference(f"table {table.name} hides rows from its owner, as whom our functions act", fix=fix)
    for column in key_columns(wanted, table.name):
        if (table.name, "column", column) not in present:
            fix = f"alter table {place} rename column YOURS to {column}"
            return Difference(f"column {column} of {table.name} is missing", fix=fix, foreign=True)
    return None


def _strangers(present: Catalogue, wanted: Catalogue, table: str) -> Iterator[Difference]:
    """What is not ours and would refuse what we write. What cannot do that is left alone."""
    ours = of_table(wanted, table, "column").keys()
    for part in [*of_table(present, table, "constraint").values(), *of_table(present, table, "index").values()]:
        if (table, part.kind, part.name) in wanted:
            continue
        touched = set(part.detail["columns"]) & (ours | {""})
        drop = _drop(part)
        if part.kind == "index" or part.detail["type"] in "pu":
            # A key is always unique, and only an index says so.
            if part.detail.get("unique", True) and touched and not _is_wider(part, wanted):
                what = f"{part.kind} {part.name} of {table} forbids what we write: {part.detail['text']}"
                yield Difference(what, fix=drop, theirs=True)
        elif part.detail["type"] == "c" and "last_status" in touched:
            yield Difference(f"{part.name} of {table} limits last_status: {part.detail['text']}", (drop,))
        elif touched - (_DECLARED if table == "refresh_schedule" else set()):
            what = f"constraint {part.name} of {table} may refuse what we write: {part.detail['text']}"
            yield Difference(what, fix=drop, theirs=True)
    for part in of_table(present, table, "column").values():
        detail = part.detail
        has_value = detail["default"] or detail["identity"] or detail["generated"]
        if part.name not in ours and detail["not_null"] and not has_value:
            what = f"column {part.name} of {table} must have a value, which we do not know"
            keys = [
                f"drop constraint {name_of(each)}, "
                for each in of_table(present, table, "constraint").values()
                if each.detail["type"] == "p" and part.name in each.detail["columns"]
            ]
            fix = f"alter table {schema()}.{table} {''.join(keys)}alter column {name_of(part)} drop not null"
            yield Difference(what, fix=fix, theirs=True)


def _is_wider(part: Part, wanted: Catalogue) -> bool:
    """Whether it contains all of one of our keys: then it forbids nothing that ours does not."""
    keys = (each for each in of_table(wanted, part.table, "constraint").values() if each.detail["type"] in "pu")
    return any(set(each.detail["columns"]) <= set(part.detail["columns"]) for each in keys)


def _made_again(present: Catalogue, wanted: Catalogue, table: str) -> Iterator[Difference]:
    """Constraints and indexes whose names the migration is about to use."""
    for kind in ("constraint", "index"):
        for part in of_table(present, table, kind).values():
            if (table, kind, part.name) in wanted and part.detail.get("type") != "p":
                yield Difference(f"{kind} {part.name} of {table} is made again", (_drop(part),))


def _keys(present: Catalogue, wanted: Catalogue, table: str, holds: Holds, only: str = "pu") -> Iterator[Difference]:
    """Each key has to be a constraint of ours; one that differs only in its name is renamed."""
    there = [each for each in of_table(present, table, "constraint").values() if each.detail["type"] in "pu"]
    for key in of_table(wanted, table, "constraint").values():
        if key.detail["type"] not in only:
            continue
        columns, name = key.detail["columns"], key.name
        same = [each for each in there if set(each.detail["columns"]) == set(columns)]
        fit = next((each for each in same if not each.detail["deferrable"]), None)
        rival = any(each.detail["type"] == "p" and each is not fit for each in there)
        if key.detail["type"] == "p" and (rival or (fit and fit.detail["type"] == "u")):
            # The table has another primary key, which others may refer to.
            name = f"{'_and_'.join(columns)}_{'are' if len(columns) > 1 else 'is'}_unique"
        if fit is None:
            yield _added_key(key, name, same, holds, of_table(present, table, "column"))
        elif name not in [each.name.rstrip("0123456789") for each in same]:
            # The server numbers a name that a relation elsewhere has.
            rename = f"alter table {schema()}.{table} rename constraint {name_of(fit)} to {name}"
            yield Difference(f"constraint {name} of {table} is named {fit.name}", (rename,))


def _twins(present: Catalogue, wanted: Catalogue, table: str, holds: Holds) -> Iterator[Difference]:
    """Values that the migration makes unique and that are not: no row is deleted because of them."""
    have = of_table(present, table, "column")
    for key in of_table(wanted, table, "constraint").values():
        columns = key.detail["columns"]
        if key.detail["type"] == "u" and set(columns) <= have.keys() and holds(table, _is_double(table, columns)):
            listed = ", ".join(columns)
            fix = f"alter table {schema()}.{table} rename column {columns[0]} to {columns[0]}_before"
            yield Difference(f"{listed} of {table} is the same in several rows", fix=fix)


def _is_double(table: str, columns: list[str]) -> str:
    listed = ", ".join(columns)
    twins = f"select {listed} from {schema()}.{table} group by {listed} having count(*) > 1"  # noqa: S608 (names of ours)
    return f"({listed}) in ({twins})"


def _added_key(key: Part, name: str, deferrable: list[Part], holds: Holds, have: dict[str, Part]) -> Difference:
    table, columns = key.table, key.detail["columns"]
    place, listed = f"{schema()}.{table}", ", ".join(columns)
    what = f"{listed} of {table} is not unique by a constraint"
    for column in columns:
        if holds(table, f"{column} is null"):
            fix = f"delete from {place} where {column} is null"  # noqa: S608 (names of ours)
            return Difference(f"{column} of {table} is null in some row", fix=fix)
    equal = " and ".join(f"a.{column} = b.{column}" for column in columns)
    if holds(table, _is_double(table, columns)):
        order, stays = "{0}.ctid", "the row that was written last stays"
        if "locked_until" in have and have["locked_until"].detail["category"] == "D":
            order = "coalesce({0}.locked_until, '-infinity'), {0}.ctid"
            stays = "the row with the latest lock stays, else the one that was written last"
        before = f"({order.format('a')}) < ({order.format('b')})"
        fix = f"delete from {place} a using {place} b where {equal} and {before}"  # noqa: S608 (names of ours)
        return Difference(f"{listed} of {table} is the same in several rows ({stays})", fix=fix)
    how = "primary key" if name == key.name and key.detail["type"] == "p" else "unique"
    drops = tuple(_drop(each) for each in deferrable)
    return Difference(what, (*drops, f"alter table {place} add constraint {name} {how} ({listed})"))


def _half_locks(have: dict[str, Part], holds: Holds) -> Iterator[Difference]:
    if {"locked_by", "locked_until"} <= have.keys():
        half = "locked_by is null and locked_until is not null or locked_by is not null and locked_until is null"
        half += " or locked_by = ''"
    else:
        (one,) = {"locked_by", "locked_until"} & have.keys()
        half = f"{one} is not null"
    if holds("refresh_schedule", half.replace("locked_by", "locked_by::text")):
        clear = ", ".join(f"{column} = null" for column in ("locked_by", "locked_until") if column in have)
        statement = f"update {schema()}.refresh_schedule set {clear} where {half}"  # noqa: S608 (names of ours)
        yield Difference("refresh_schedule has locks without a holder or without an end", (statement,))


def _rules(present: Catalogue, wanted: Catalogue, table: str) -> Iterator[Difference]:
    """Checks, indexes and triggers as the migrations make them."""
    for part in wanted.values():
        if part.table != table or part.kind in ("table", "column") or part.detail.get("type", "c") != "c":
            continue
        there = present.get((table, part.kind, part.name))
        if there is None:
            yield Difference(f"{part.kind} {part.name} of {table} is missing", (_creation(part),))
        elif there.detail["text"].removesuffix(" NOT VALID") != part.detail["text"]:
            what = f"{part.kind} {part.name} of {table} was changed"
            yield Difference(what, (_drop(there), _creation(part)))
        elif not there.detail["valid"]:
            what, statements = _awake(there, part)
            yield Difference(what, statements)


def _awake(there: Part, part: Part) -> tuple[str, tuple[str, ...]]:
    place = f"{schema()}.{part.table}"
    what = f"{part.kind} {part.name} of {part.table} is not in force"
    if part.kind == "constraint":
        return what, (f"alter table {place} validate constraint {part.name}",)
    if part.kind == "trigger":
        return what, (f"alter table {place} enable trigger {part.name}",)
    return what, (_drop(there), _creation(part))


def _drop(part: Part) -> str:
    if part.kind == "index":
        return f"drop index {schema()}.{name_of(part)}"
    if part.kind == "trigger":
        return f"drop trigger {name_of(part)} on {schema()}.{part.table}"
    return f"alter table {schema()}.{part.table} drop constraint {name_of(part)}"


def _creation(part: Part) -> str:
    text = str(part.detail["text"])
    if part.kind == "constraint":
        return f"alter table {schema()}.{part.table} add constraint {part.name} {text}"
    place = schema()
    return text.replace(" ON ", f" ON {place}.", 1).replace(" EXECUTE FUNCTION ", f" EXECUTE FUNCTION {place}.")
