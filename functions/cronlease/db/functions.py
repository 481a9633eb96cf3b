"""One typed function per SQL function, with the same name: each answers the query that calls it.

The lock itself is in schema/cronlease/functions: every race is closed there, none here.
"""

import functools
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from cronlease.db.alerts import Watch
from cronlease.db.plans import Rules, rules_of
from cronlease.db.queries import Query, array, call, first, given
from cronlease.outcome import Counts, Status


class Claim(NamedTuple):
    acquired: bool
    reason: str | None
    fence: int | None
    locked_by: str | None
    locked_until: datetime | None
    next_run_at: datetime | None
    action: str | None
    args: dict[str, Any] | None
    every: str | None
    failures: int | None
    # Only from claim_due_refreshes: which row was claimed, or how long until one is due.
    function_name: str | None = None
    due_in: timedelta | None = None
    # What run/plan.py needs of the row: with a claim, and with a skip if the row needs a plan.
    details: dict[str, Any] | None = None
    # Why the schedule could not be read, and what to do about it.
    trouble: str | None = None
    # Only from claim_due_refreshes: the claims that were granted.
    claims: "tuple[Claim, ...] | None" = None

    @property
    def in_doubt(self) -> bool:
        """Whether the row's last two runs never finished, as take_due_refreshes counts them: this one may kill its
        process, too."""
        return self.details is not None and self.details["abandoned"] >= 2


class Finish(NamedTuple):
    status: Status
    next_run_at: datetime | None


class Due(NamedTuple):
    """How many rows are due, and those of them that we cannot run: their actions are not registered here."""

    due: int
    unknown: int
    unknown_names: list[str]


_CLAIM = ", ".join(Claim._fields[:10])
_CLAIM += (
    ", public.refresh_details(p_function_name => %(p_function_name)s::text, p_acquired => acquired,"
    " p_reason => reason{more})"
)


def acquire_refresh_lock(
    function_name: str,
    request_id: UUID,
    lease: timedelta,
    *,
    max_run: timedelta | None = None,
    force: bool = False,
    trigger: str = "manual",
    job_name: str | None = None,
    schedule_time: str | None = None,
    args: Mapping[str, Any] | None = None,
    backoff: timedelta = timedelta(minutes=30),
    actions: Collection[str] | None = None,
    parent: UUID | None = None,
    rules: Rules | None = None,
    delivery: str | None = None,
    delivery_at: datetime | None = None,
) -> Query[Claim]:
    """What is not given is left to the SQL function's defaults: a plain hit sends few parameters."""
    params = {
        "p_function_name": function_name,
        "p_request_id": request_id,
        "p_lease": lease,
        "p_backoff": backoff,
        "p_max_run": max_run,
        "p_trigger": None if trigger == "manual" else trigger,
        "p_job_name": job_name,
        "p_schedule_time": schedule_time,
        "p_force": force or None,
        "p_args": json.dumps(args) if args else None,
        "p_actions": None if actions is None else array(tuple(actions)),
        "p_parent_request_id": parent,
        "p_early": True,
        "p_delivery": delivery,
        "p_delivery_at": None if delivery_at is None else delivery_at.isoformat(),
        **{f"p_{name}": value for name, value in (rules or Rules())._asdict().items()},
    }
    sent = given(params)
    return call("acquire_refresh_lock", sent, _read_claim, _claim_columns(tuple(sent)))


@functools.cache
def _claim_columns(names: tuple[str, ...]) -> str:
    """The claim and its details, decided by the same rules in the same round trip."""
    rules = ("p_cadence", "text"), ("p_attempts", "integer"), ("p_late", "interval")
    more = "".join(f", {name} => %({name})s::{kind}" for name, kind in rules if name in names)
    return _CLAIM.format(more=more)


def _read_claim(row: tuple[Any, ...]) -> Claim:
    return Claim(*row[:-1])._replace(details=row[-1])


def due_refreshes(actions: Collection[str], rules: Sequence[Rules] = ()) -> Query[Due]:
    params = {"p_actions": array(tuple(actions)), **rules_of(rules)}
    return call("due_refreshes", params, lambda row: Due(row[0], row[1], row[2] or []))


def ensure_schedule(function_name: str, planned_from: str | None = None) -> Query[str]:
    """Answers created, exists or locked."""
    params = given({"p_function_name": function_name, "p_planned_from": planned_from})
    return call("ensure_schedule", params, first)


def renew_refresh_lock(
    function_name: str, request_id: UUID, fence: int, lease: timedelta, saved: str | None = None
) -> Query[str]:
    """Answers renewed, busy or lost. Saved is JSON."""
    params = {
        "p_function_name": function_name,
        "p_request_id": request_id,
        "p_fence": fence,
        "p_lease": lease,
        "p_saved": saved,
    }
    return call("renew_refresh_lock", given(params), first)


def assert_lease(function_name: str, request_id: UUID, fence: int) -> Query[str]:
    """Answers the ID of the transaction that has locked the row, for only_in."""
    params = {"p_function_name": function_name, "p_request_id": request_id, "p_fence": fence}
    return call("assert_lease", params, first, "pg_catalog.pg_current_xact_id()::pg_catalog.text")


def any_committed(transactions: Collection[str]) -> Query[bool]:
    """Whether one of the transactions with these IDs was committed."""
    return Query(
        "select coalesce(pg_catalog.bool_or(pg_catalog.pg_xact_status(id) = 'committed'), false)"
        " from pg_catalog.unnest(%(ids)s::pg_catalog.xid8[]) id",
        {"ids": "{" + ",".join(transactions) + "}"},
        first,
    )


def finish_refresh_run(
    function_name: str,
    request_id: UUID,
    fence: int,
    status: Status,
    delay: timedelta,
    *,
    error: str | None,
    counts: Counts,
    retention: timedelta,
    rules: Rules | None = None,
    slot_at: datetime | None = None,
    watch: Watch | None = None,
) -> Query[Finish]:
    """The next plan is made from the cadence of the rules; slot_at is its next slot, if it has slots."""
    rules = rules or Rules()
    params = {
        "p_function_name": function_name,
        "p_request_id": request_id,
        "p_fence": fence,
        "p_status": status.value,
        "p_delay": delay,
        "p_retention": retention,
        "p_error": error,
        "p_planned_from": rules.cadence,
        "p_slot_at": slot_at,
        "p_attempts": rules.attempts,
        "p_late": rules.late,
        **{f"p_{name}": count for name, count in counts._asdict().items()},
        **(watch or Watch()).params,
    }
    return call("finish_refresh_run", given(params), lambda row: Finish(Status(row[0]), row[1]))


def release_refresh_lock(function_name: str | None, request_id: UUID) -> Query[bool]:
    """Without a name, whichever row the request has claimed."""
    return call("release_refresh_lock", {"p_function_name": function_name, "p_request_id": request_id}, first)


def prune_refresh_history(retention: timedelta) -> Query[int]:
    """Deletes history that is older; answers how many rows."""
    return call("prune_refresh_history", {"p_retention": retention}, first)


def read_refresh_status(*, args: bool = True) -> Query[dict[str, Any]]:
    """With args, those of the runs are included, which not everybody may see."""
    return call("read_refresh_status", {"p_with_args": args, "p_all": True}, lambda row: dict(row[0]))


def read_refresh_page(search: str | None, health: str | None, page: int) -> Query[dict[str, Any]]:
    """One page of the schedules with their newest runs, and how many are in which health."""
    params = {"p_search": search, "p_health": health, "p_page": page}
    return call("read_refresh_page", given(params), lambda row: dict(row[0]))


def read_refresh_schedule(function_name: str, runs: int, *, args: bool = True) -> Query[dict[str, Any]]:
    """One schedule with its newest runs and what people did to it; `schedule` is None if there is no such row."""
    params = {"p_function_name": function_name, "p_runs": runs, "p_with_args": args}
    return call("read_refresh_schedule", params, lambda row: dict(row[0]))
