"""Queries are data: a text with typed parameters, and how its row is read. `ask` sends them.

A module that owns statements keeps them in one .sql file beside it, a section per statement, each opened by
`-- name: word`; calls of our SQL functions are written by `call`.

Every parameter is sent with its type. The server chooses among functions of one name by the types of their arguments,
so with an untyped parameter somebody else's function could be called instead of ours.
"""

import functools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, LiteralString, NamedTuple, TypeVar

from cronlease.db.schema import in_schema, schema

T = TypeVar("T")

_SECTION = r"(?m)^-- name: (\w+)\n"
_ARGUMENTS = {
    "text": (
        "function_name trigger job_name schedule_time action every reason status error cadence planned_from cron"
        " time_zone missed delivery actor operation search health"
    ),
    "text[]": "actions cadences addresses function_names",
    "uuid": "request_id parent_request_id holder",
    "uuid[]": "request_ids",
    "bigint": "fence fetched inserted updated unchanged closed",
    "bigint[]": "delivered failed unsent fences",
    "integer": "attempts missed_count pause_after page runs",
    "integer[]": "most_attempts",
    "boolean": "force replace with_args all early in_doubt",
    "interval": "lease backoff max_run delay retention older_than late late_after late_alert probe",
    "interval[]": "leases backoffs lates",
    "timestamptz": "at slot_at next_run_at delivery_at",
    "jsonb": "args saved ends",
}
_TYPES = {f"p_{name}": kind for kind, names in _ARGUMENTS.items() for name in names.split()}


class Query(NamedTuple, Generic[T]):
    """One statement, and how its one row is read."""

    text: str
    params: Mapping[str, Any]
    read: Callable[[tuple[Any, ...]], T]


# Reads a row of one value.
first: Callable[[tuple[Any, ...]], Any] = operator.itemgetter(0)


class _Queries(Mapping[str, LiteralString]):
    """Statements by name, about the schema that is configured when one is taken out."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def __getitem__(self, name: str) -> LiteralString:
        # These files hold no input, so their text is as literal as the source.
        return in_schema(self._texts[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def load_queries(path: Path) -> Mapping[str, LiteralString]:
    """The statements of the file by name. What stands before the first section is a comment about all of them."""
    pieces = re.split(_SECTION, path.read_text("utf-8"))
    names, texts = pieces[1::2], pieces[2::2]
    assert len(names) == len(set(names)), f"{path.name} names a statement twice"
    return _Queries(dict(zip(names, (text.strip() + "\n" for text in texts), strict=True)))


def call(
    function: str, params: Mapping[str, Any], read: Callable[[tuple[Any, ...]], T], columns: str = "*"
) -> Query[T]:
    """The call of an SQL function of ours with just these arguments: the defaults stay in one place, and a short text
    is quicker to send."""
    return Query(_call_text(schema(), function, tuple(params), columns), params, read)


@functools.cache
def _call_text(place: str, function: str, names: tuple[str, ...], columns: str) -> str:
    arguments = ", ".join(f"{name} => %({name})s::{_TYPES[name]}" for name in names)
    return f"select {in_schema(columns)} from {place}.{function}({arguments})"  # noqa: S608 (the names are our own)


def given(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that have a value: the rest is left to the SQL function's defaults."""
    return {name: value for name, value in params.items() if value is not None}


def only_in(transaction: str, query: Query[T]) -> Query[T]:
    """The same query, which shows its fence only in the transaction of that ID: in any other one the row's lock is
    gone, and without a fence the lease is not ours."""
    shown = (
        "case when pg_catalog.pg_current_xact_id_if_assigned() = %(p_transaction)s::pg_catalog.xid8"
        " then %(p_fence)s::pg_catalog.int8 end"
    )
    assert "%(p_fence)s" in query.text, "the query has a fence to show"
    text = query.text.replace("%(p_fence)s", f"({shown})")
    return query._replace(text=text, params={**query.params, "p_transaction": transaction})


@functools.cache
def array(texts: tuple[str | None, ...]) -> str:
    """An array as Postgres writes it, of the argument's type. Cached, for what is sent again and again."""
    return new_array(texts)


def new_array(texts: Iterable[str | None]) -> str:
    """The same, not cached, for values that do not come again."""
    quoted = [
        "null" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts
    ]
    return "{" + ",".join(quoted) + "}"


def interval(length: timedelta) -> str:
    """An interval as every version reads it: PostgreSQL 14 takes no number over 2^31, which is 36 minutes in
    microseconds."""
    seconds, rest = divmod(length, timedelta(seconds=1))
    return f"{seconds} s {rest.microseconds} us"
