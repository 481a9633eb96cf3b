"""Reads one schedule with everything that explains it, in one query. Backends are visible only as far as the caller's
role may see them: a role that may not ask for them leaves them out."""

from typing import Any

from cronlease.db.functions import read_refresh_schedule
from cronlease.db.queries import Query
from cronlease.explain.backends import statement, to_backends
from cronlease.explain.rows import Details, to_details


def read_details(name: str, runs: int, *, args: bool = True, backends: bool = True) -> Query[Details | None]:
    """None if there is no such schedule."""
    query = read_refresh_schedule(name, runs, args=args)
    if not backends:
        return query._replace(read=lambda row: _read(row[0], []))  # type: ignore[arg-type, return-value]
    text = f"select answer.*, ({statement()}) from ({query.text}) answer"  # noqa: S608 (both are our own)
    return Query(text, {**query.params, "name": name}, lambda row: _read(row[0], row[1]))


def _read(document: dict[str, Any], backends: list[dict[str, Any]]) -> Details | None:
    return to_details(document, to_backends(backends)) if document["schedule"] else None
