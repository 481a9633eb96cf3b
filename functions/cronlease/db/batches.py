"""The queries about many runs in one statement: claims, renewals, ends. One typed function per SQL function, as in
functions.py; each answers one row, which holds the answers for all runs."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from cronlease.db.functions import Claim, Finish
from cronlease.db.plans import Rules, rules_of
from cronlease.db.queries import Query, array, call, first, given, interval, new_array
from cronlease.db.schema import in_schema
from cronlease.outcome import Status

_CLAIMS = (
    "coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('acquired', acquired, 'reason', reason,"
    " 'fence', fence, 'locked_by', locked_by, 'action', action, 'args', args, 'every', every, 'failures', failures,"
    " 'function_name', function_name, 'due_in', extract(epoch from due_in)::double precision, 'details', details)),"
    " '[]')"
)
_GRANTED = Claim(True, None, *[None] * 8)


class Held(NamedTuple):
    """A lease as a renewal names it."""

    function_name: str
    request_id: UUID
    fence: int
    lease: timedelta


def claim_due_refreshes(
    request_ids: Sequence[UUID],
    actions: Sequence[str],
    leases: Sequence[timedelta],
    backoffs: Sequence[timedelta],
    *,
    trigger: str,
    max_run: timedelta | None = None,
    parent: UUID | None = None,
    rules: Sequence[Rules] = (),
    in_doubt: bool = True,
) -> Query[Claim]:
    """Answers one Claim, which is granted if any row was claimed; `claims` has those rows, at most one of them in
    doubt, as Claim has it, and none unless `in_doubt`. Leases, backoffs and rules are parallel to the actions."""
    params = {
        "p_request_ids": _uuids(request_ids),
        "p_actions": array(tuple(actions)),
        "p_leases": array(tuple(map(interval, leases))),
        "p_backoffs": array(tuple(map(interval, backoffs))),
        "p_trigger": trigger,
        "p_max_run": max_run,
        "p_parent_request_id": parent,
        "p_in_doubt": in_doubt,
        **rules_of(rules),
    }
    return call("claim_due_refreshes", given(params), _read_claims, _CLAIMS)


def _read_claims(row: tuple[Any, ...]) -> Claim:
    claims = tuple(map(_read_claim, row[0]))
    if claims[0].acquired:
        return _GRANTED._replace(claims=claims)
    return claims[0]


def _read_claim(row: Mapping[str, Any]) -> Claim:
    due_in = row["due_in"]
    return Claim(
        row["acquired"],
        row["reason"],
        row["fence"],
        row["locked_by"],
        None,
        None,
        row["action"],
        row["args"],
        row["every"],
        row["failures"],
        row["function_name"],
        None if due_in is None else timedelta(seconds=due_in),
        row["details"],
    )


def renew_refresh_locks(held: Collection[Held]) -> Query[dict[str, str]]:
    """Answers renewed, busy or lost, by request ID."""
    params = {
        "p_function_names": new_array(each.function_name for each in held),
        "p_request_ids": _uuids([each.request_id for each in held]),
        "p_fences": new_array(str(each.fence) for each in held),
        "p_leases": new_array(interval(each.lease) for each in held),
    }
    columns = "coalesce(pg_catalog.jsonb_object_agg(request_id, answer), '{}')"
    return call("renew_refresh_locks", params, first, columns)


def finish_refresh_runs(ends: Collection[Query[Finish]]) -> Query[dict[str, Finish | None]]:
    """Writes in one commit what each of these queries of finish_refresh_run would write. Answers by request ID; None
    means that the lease was lost. A run whose row somebody else has locked has no answer."""
    runs = [{name[2:]: _written(value) for name, value in end.params.items()} for end in ends]
    columns = (
        "coalesce(pg_catalog.jsonb_object_agg(request_id, pg_catalog.jsonb_build_array(status, next_run_at)), '{}')"
    )
    return call("finish_refresh_runs", {"p_ends": json.dumps(runs)}, _read_ends, columns)


def _read_ends(row: tuple[Any, ...]) -> dict[str, Finish | None]:
    return {
        request: None if status == "lost" else Finish(Status(status), at and datetime.fromisoformat(at))
        for request, (status, at) in row[0].items()
        if status != "busy"
    }


def release_refresh_locks(request_ids: Sequence[UUID]) -> Query[bool]:
    """Frees whichever rows these requests have claimed; answers whether there were any."""
    text = (
        "select coalesce(pg_catalog.bool_or(public.release_refresh_lock(p_function_name => null::text,"
        " p_request_id => id)), false) from pg_catalog.unnest(%(ids)s::uuid[]) id"
    )
    return Query(in_schema(text), {"ids": _uuids(request_ids)}, first)


def _uuids(values: Sequence[UUID]) -> str:
    return new_array(map(str, values))


_WRITTEN: dict[type, Callable[[Any], str]] = {UUID: str, timedelta: interval, datetime: datetime.isoformat}


def _written(value: Any) -> Any:
    """The value as JSON can hold it and SQL can read it."""
    write = _WRITTEN.get(type(value))
    return value if write is None else write(value)
