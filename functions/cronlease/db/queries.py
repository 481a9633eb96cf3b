"""Queries are data: a text with typed parameters, and how its row is read. `ask` sends them.

A module that owns statements keeps them in one .sql file beside it, a section per statement, each opened by
`-- name: word`; calls of our SQL functions are written by `call`.

Every parameter is sent with its type. The server chooses among functions of one name by the types of their arguments,
so an untyped parameter would let somebody else's function be called in the place of ours.
"""

import functools
import operator
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, LiteralString, NamedTuple, TypeVar, cast

T = TypeVar("T")

_SECTION = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_ARGUMENTS = {
    "text": "function_name trigger job_name schedule_time action every reason status error actor operation search"
    " health",
    "text[]": "actions",
    "uuid": "request_id parent_request_id",
    "bigint": "fence fetched inserted updated unchanged closed",
    "boolean": "force replace with_args",
    "interval": "lease backoff max_run delay retention older_than",
    "interval[]": "leases backoffs",
    "integer": "page runs",
    "timestamptz": "at",
    "jsonb": "args",
}
_TYPES = {f"p_{name}": kind for kind, names in _ARGUMENTS.items() for name in names.split()}


class Query(NamedTuple, Generic[T]):
    """One statement, and how its one row is read."""

    text: str
    params: Mapping[str, Any]
    read: Callable[[tuple[Any, ...]], T]


# Reads a row of one value.
first: Callable[[tuple[Any, ...]], Any] = operator.itemgetter(0)


def load_queries(path: Path) -> dict[str, LiteralString]:
    """The statements of the file by name. What stands before the first section is a comment about all of them."""
    pieces = _SECTION.split(path.read_text("utf-8"))
    names, texts = pieces[1::2], pieces[2::2]
    assert len(names) == len(set(names)), f"{path.name} names a statement twice"
    # As literal as the source is: nobody's input is in these files.
    return cast("dict[str, LiteralString]", dict(zip(names, (text.strip() + "\n" for text in texts), strict=True)))


def call(
    function: str, params: Mapping[str, Any], read: Callable[[tuple[Any, ...]], T], columns: str = "*"
) -> Query[T]:
    """The call of an SQL function of ours with just these arguments: the defaults stay in one place, and a short text
    is quicker to send."""
    return Query(_call_text(function, tuple(params), columns), params, read)


@functools.cache
def _call_text(function: str, names: tuple[str, ...], columns: str) -> str:
    arguments = ", ".join(f"{name} => %({name})s::{_TYPES[name]}" for name in names)
    return f"select {columns} from public.{function}({arguments})"  # noqa: S608 (the names are our own)


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
def array(texts: tuple[str, ...]) -> str:
    """As Postgres writes an array; the type is the argument's."""
    quoted = ['"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts]
    return "{" + ",".join(quoted) + "}"


def interval(length: timedelta) -> str:
    """As every version reads it: PostgreSQL 14 takes no number over 2^31, which is 36 minutes in microseconds."""
    seconds, rest = divmod(length, timedelta(seconds=1))
    return f"{seconds} s {rest.microseconds} us"
