"""Mutants: guards missing where slots, plans, attempts and deliveries are decided."""

import psycopg

from tests.faults.mutants import GONE, mutants_of
from tests.schema import test_slots as slots


def _early(conn: psycopg.Connection) -> None:
    slots.test_a_hit_may_come_a_little_early_and_a_dispatcher_never(conn, slots.CRON, 20, comes=False)


ALL = [
    *mutants_of(
        "refresh_skip_reason",
        "a slot",
        [
            (
                "a retry is early",
                "\n          and (p_row).next_run_at = (p_row).slot_at",
                GONE,
                slots.test_a_retry_waits_for_its_time_and_is_not_early,
            ),
            (
                "any hit is early",
                "p_at + public.refresh_early((p_row).planned_from)",
                "p_at + interval '1 h'",
                _early,
            ),
        ],
    ),
    *mutants_of(
        "refresh_is_spent",
        "a slot",
        [
            (
                "an unplanned cron is due",
                "position(' ' in public.refresh_cadence(p_row, p_cadence)) > 0",
                "false",
                slots.test_a_cron_that_nobody_has_planned_is_not_due_and_a_beat_is,
            ),
            (
                "a dead slot has no end of attempts",
                "(p_row).attempt >= coalesce((p_row).attempts, p_attempts, 3)",
                "false",
                slots.test_an_abandoned_run_counts_and_the_slot_that_is_out_of_attempts_waits_for_a_plan,
            ),
            (
                "a late slot runs",
                "p_at > (p_row).slot_at + case",
                "false and p_at > (p_row).slot_at + case",
                slots.test_a_slot_that_is_too_late_is_not_run,
            ),
        ],
    ),
    *mutants_of(
        "take_refresh_lock",
        "a delivery",
        [
            (
                "it runs twice",
                "elsif v_is_hit and public.refresh_was_delivered(",
                "elsif false and public.refresh_was_delivered(",
                slots.test_a_delivery_that_had_its_success_is_a_duplicate_and_takes_no_lock,
            ),
            (
                "a button uses it up",
                "p_delivery_at > v_now + interval '5 seconds'",
                "false",
                slots.test_a_delivery_from_the_future_is_a_manual_run_and_uses_up_nothing,
            ),
        ],
    ),
    *mutants_of(
        "grant_refresh_locks",
        "a grant",
        [
            (
                "a forced run counts as an attempt",
                "false) then s.attempt",
                "false) then s.attempt + 1",
                slots.test_a_forced_run_leaves_the_slot_where_it_is,
            ),
        ],
    ),
    *mutants_of(
        "plan_refresh",
        "a plan",
        [
            (
                "it is written over any other",
                "\n    or v_row.planned_from is distinct from p_planned_from",
                GONE,
                slots.test_a_plan_is_written_only_over_the_plan_it_was_made_from,
            ),
            (
                "it is written over a later one",
                "is distinct from p_next_run_at",
                "is null",
                slots.test_a_plan_is_written_only_over_the_plan_it_was_made_from,
            ),
            (
                "it moves what runs",
                "\n    or v_row.locked_until > v_now",
                GONE,
                slots.test_a_row_that_runs_is_not_planned,
            ),
        ],
    ),
    *mutants_of(
        "refresh_after_end",
        "an end",
        [
            (
                "a forced run moves the slot",
                "v_is_slotted and p_attempt is null",
                "false",
                slots.test_a_forced_run_leaves_the_slot_where_it_is,
            ),
            (
                "a retry may come after the next slot",
                "\n      or p_at + v_delay >= p_slot_at",
                GONE,
                slots.test_a_retry_that_would_fall_after_the_next_slot_gives_the_slot_up,
            ),
            (
                "an interrupted run is an attempt",
                "greatest(p_row.attempt - 1, 0)",
                "p_row.attempt",
                slots.test_an_interrupted_run_does_not_count_as_an_attempt,
            ),
            (
                "what was saved stays after a success",
                "    v_row.saved := null;\n",
                GONE,
                slots.test_what_a_run_saves_is_there_until_a_success,
            ),
            (
                "a cron without a plan is due",
                "v_cadence = 'hit' or position(' ' in v_cadence) > 0",
                "v_cadence = 'hit'",
                slots.test_without_a_plan_a_cron_waits_unplanned_and_a_beat_keeps_its_anchor,
            ),
        ],
    ),
    *mutants_of(
        "serve_refresh_slot",
        "a slot",
        [
            (
                "anybody may serve it",
                "\n    and s.fence = p_fence",
                GONE,
                slots.test_a_later_slot_and_what_was_missed_are_recorded_by_the_holder_alone,
            )
        ],
    ),
    *mutants_of(
        "take_due_refreshes",
        "a dispatcher",
        [
            (
                "it takes what its trigger owns",
                "          and public.refresh_cadence(s, wanted.cadence) is distinct from 'hit'\n          and not",
                "          and not",
                slots.test_dispatchers_leave_a_row_alone_whose_trigger_owns_the_schedule,
            )
        ],
    ),
]
