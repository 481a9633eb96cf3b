"""One schedule with all that explains it, in one question. The backends are read with the rights of whoever asks:
where those do not suffice, ask without them."""

from typing import Any

from cronlease.db.functions import read_refresh_schedule
from cronlease.db.queries import Query
from cronlease.explain.backends import statement, to_backends
from cronlease.explain.rows import Details, to_details


def read_details(name: str, runs: int, *, args: bool = True, backends: bool = True) -> Query[Details | None]:
    """None where there is no such schedule."""
    query = read_refresh_schedule(name, runs, args=args)
    if not backends:
        return query._replace(read=lambda row: _read(name, row[0], []))  # type: ignore[arg-type, return-value]
    text = f"select found.*, ({statement()}) from ({query.text}) found"  # noqa: S608 (both are our own)
    return Query(text, {**query.params, "name": name}, lambda row: _read(name, row[0], row[1]))


def _read(name: str, document: dict[str, Any], backends: list[dict[str, Any]]) -> Details | None:
    return to_details(name, document, to_backends(backends)) if document["schedule"] else None
