"""A function's rules for its schedule, and the queries that plan a row and record which slot a run serves."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from cronlease.db.queries import Query, array, call, first, interval


class Rules(NamedTuple):
    """A function's rules where its row has none: the text of its cadence, how many runs a slot gets, and how late a
    slot may be run. None means SQL's default, or no limit."""

    cadence: str | None = None
    attempts: int | None = None
    late: timedelta | None = None


def rules_of(rules: Sequence[Rules]) -> dict[str, Any]:
    """Arrays parallel to the actions; empty if no rules are given."""
    columns: dict[str, list[str | None]] = {
        "p_cadences": [each.cadence for each in rules],
        "p_most_attempts": [None if each.attempts is None else str(each.attempts) for each in rules],
        "p_lates": [None if each.late is None else interval(each.late) for each in rules],
    }
    return {name: array(tuple(values)) for name, values in columns.items() if any(values)}


def unplanned_refreshes(actions: Collection[str], rules: Sequence[Rules] = ()) -> Query[list[dict[str, Any]]]:
    """The rows that a dispatcher should plan, with what a plan needs of them."""
    return call("unplanned_refreshes", {"p_actions": array(tuple(actions)), **rules_of(rules)}, first)


def plan_refresh(
    function_name: str,
    planned_from: str | None,
    next_run_at: datetime | None,
    cadence: str | None,
    *,
    slot_at: datetime | None = None,
    delay: timedelta | None = None,
    attempts: int | None = None,
    late_after: timedelta | None = None,
) -> Query[bool]:
    """Answers whether it was written: only over a plan that was made from planned_from, for next_run_at."""
    params = {
        "p_function_name": function_name,
        "p_planned_from": planned_from,
        "p_next_run_at": next_run_at,
        "p_cadence": cadence,
        "p_slot_at": slot_at,
        "p_delay": delay,
        "p_attempts": attempts,
        "p_late_after": late_after,
    }
    return call("plan_refresh", params, first)


def serve_refresh_slot(
    function_name: str, request_id: UUID, fence: int, slot_at: datetime, missed_count: int
) -> Query[int]:
    """Answers which attempt at the slot the run is."""
    params = {
        "p_function_name": function_name,
        "p_request_id": request_id,
        "p_fence": fence,
        "p_slot_at": slot_at,
        "p_missed_count": missed_count,
    }
    return call("serve_refresh_slot", params, first)
