"""Mutants: guards missing where a row is claimed, by name or by a dispatcher."""

import psycopg

from tests.faults import test_between as between
from tests.faults import test_claims as claims
from tests.faults import test_guards as guards
from tests.faults.mutants import CLOCK, GONE, LOCK, SKIP, Guard, mutants_of
from tests.schema import test_acquire as acquire
from tests.schema import test_advisory_lock as advisory
from tests.schema import test_batches as batches
from tests.schema import test_claim_due as due
from tests.schema import test_finish as finish
from tests.schema import test_lease as lease
from tests.schema import test_skip as skip
from tests.schema import test_unknown_action as unknown

TAKE = "take_refresh_lock"


def _on_its_way(dsn: str, conn: psycopg.Connection) -> None:
    acquire.test_a_request_that_asks_again_while_its_first_claim_is_on_its_way_gets_the_same_run(dsn, conn, False)


_TAKEN: list[Guard] = [
    ("it waits for the row", SKIP, LOCK, lease.test_assert_lease_keeps_the_row_until_the_transaction_ends),
    (
        "it does not lock the row",
        "\n" + SKIP.rstrip(),
        ";",
        lease.test_assert_lease_keeps_the_row_until_the_transaction_ends,
    ),
    (
        "it takes no advisory lock",
        "not pg_try_advisory_xact_lock(public.refresh_lock_key('claim'), v_id)",
        "false",
        advisory.test_a_claim_is_turned_away_by_an_advisory_lock,
    ),
    (
        "it does not wait for its first claim",
        "perform pg_advisory_xact_lock(public.refresh_lock_key('request'), hashtext(p_request_id::text));\n",
        GONE,
        _on_its_way,
    ),
    (
        "it does not wait for a lock that is about to be free",
        "    perform pg_advisory_xact_lock(public.refresh_lock_key('claim'), v_id);\n",
        "    if not pg_try_advisory_xact_lock(public.refresh_lock_key('claim'), v_id) then return; end if;\n",
        acquire.test_a_request_that_asks_again_waits_for_a_lock_that_is_about_to_be_free,
    ),
    (
        "its advisory lock outlives it",
        "pg_try_advisory_xact_lock",
        "pg_try_advisory_lock",
        skip.test_an_answered_claim_leaves_no_lock_behind,
    ),
    ("it reads the clock before the lock", CLOCK, GONE, between.test_a_lease_is_counted_from_when_the_row_was_had),
    (
        "it counts from its transaction's start",
        CLOCK,
        "  v_now := now();\n",
        claims.test_a_lease_in_an_old_transaction_is_whole,
    ),
    (
        "it does not look again under the lock",
        "  reason := public.refresh_skip_reason(\n    v_row, p_request_id, p_force, v_now, p_cadence, p_attempts,"
        " p_late, p_early\n  );\n",
        GONE,
        between.test_a_claim_looks_again_once_it_has_the_row,
    ),
    (
        "a request that asks again is a stranger",
        "if v_row.locked_by = p_request_id::text then",
        "if false then",
        acquire.test_the_same_request_asking_again_gets_the_same_run,
    ),
    (
        "a request is let run twice",
        "exists (select from public.refresh_runs r where r.request_id = p_request_id)",
        "false",
        acquire.test_a_request_that_has_had_its_run_gets_no_second_one,
    ),
    (
        "it ignores which actions there are",
        "if v_action <> all (p_actions) then",
        "if false then",
        unknown.test_a_hit_for_an_unknown_action_is_skipped_after_every_other_reason,
    ),
    (
        "it does not look at the action again",
        "elsif reason is null and v_row.action <> all (p_actions) then",
        "elsif false then",
        unknown.test_the_action_is_looked_at_again_under_the_row_lock,
    ),
    (
        "it ignores a cadence that cannot be read",
        "if not public.is_band(v_every) then",
        "if false then",
        skip.test_a_cadence_that_is_unreadable_is_skipped_without_a_trace_too,
    ),
    (
        "it does not look at the cadence again",
        "if not public.is_band(v_row.every) then",
        "if false then",
        between.test_a_claim_looks_again_once_it_has_the_row,
    ),
    (
        "a lease may be zero",
        "p_lease <= interval '0'",
        "p_lease < interval '0'",
        acquire.test_a_lease_must_be_longer_than_zero,
    ),
    ("a lease may be null", "p_lease is null or ", GONE, acquire.test_a_lease_must_be_longer_than_zero),
    (
        "an unknown name looks like a held lock",
        "if v_id is null then",
        "if false then",
        acquire.test_an_unknown_name_is_an_error_and_never_inserts,
    ),
]

GRANT = "grant_refresh_locks"
_GRANTED: list[Guard] = [
    ("the fence stands still", "s.fence + 1", "s.fence + 0", lease.test_the_fence_only_rises),
    (
        "a dead run stays open",
        "o.fence >= held.fence",
        "o.fence > held.fence",
        acquire.test_at_most_one_run_of_a_function_is_open,
    ),
    (
        "ended runs are abandoned too",
        "\n        and o.status = 'running'",
        GONE,
        finish.test_a_second_finish_does_not_disturb_the_run_that_came_after,
    ),
    (
        "the runs of others are abandoned too",
        "where o.function_name = held.function_name\n        and",
        "where",
        acquire.test_an_expired_lease_is_taken_over_and_its_run_closed_as_abandoned,
    ),
    (
        "abandoned runs are not counted",
        "abandoned = s.abandoned + a.orphans",
        "abandoned = s.abandoned",
        acquire.test_abandoned_runs_count_whoever_noticed_them,
    ),
    (
        "the backoff comes one run too late",
        "a.orphans >= 3",
        "a.orphans > 3",
        acquire.test_the_third_abandonment_in_a_row_costs_a_backoff_at_the_claim,
    ),
    (
        "abandoned runs cost no backoff",
        "then p_at + a.backoff",
        "then s.next_run_at",
        acquire.test_the_third_abandonment_in_a_row_costs_a_backoff_at_the_claim,
    ),
]

REASON = "refresh_skip_reason"
_REASONS: list[Guard] = [
    (
        "a lease never holds",
        "when (p_row).locked_until > p_at then 'locked'",
        GONE,
        lease.test_a_lease_that_ran_out_but_was_not_replaced_is_renewed,
    ),
    (
        "a lease never expires",
        "(p_row).locked_until > p_at",
        "(p_row).locked_until is not null",
        acquire.test_an_expired_lease_is_taken_over_and_its_run_closed_as_abandoned,
    ),
    (
        "a lease lasts a moment too long",
        "locked_until > p_at",
        "locked_until >= p_at",
        acquire.test_a_lease_is_over_and_a_row_is_due_at_its_very_moment,
    ),
    (
        "a row is due a moment too late",
        "next_run_at > p_at",
        "next_run_at >= p_at",
        acquire.test_a_lease_is_over_and_a_row_is_due_at_its_very_moment,
    ),
    (
        "a row is always due",
        "when (p_row).next_run_at > p_at then",
        "when false then",
        finish.test_finish_frees_the_lease_and_moves_the_next_run_by_the_delay,
    ),
    ("force does nothing", "when p_force then null", GONE, acquire.test_force_claims_before_the_row_is_due),
    (
        "a completed row runs again",
        "(p_row).completed_at is not null",
        "false",
        acquire.test_a_one_shot_is_claimed_like_any_other_until_it_completes,
    ),
    ("a paused row runs", "(p_row).paused_at is not null", "false", skip.test_each_reason_is_answered),
    (
        "the holder is locked out by itself",
        "when (p_row).locked_by = p_request_id::text then null",
        GONE,
        acquire.test_the_same_request_asking_again_gets_the_same_run,
    ),
]

DUE = "take_due_refreshes"
_IS_FREE = "          and (s.locked_until is null or s.locked_until <= v_now)\n"
_AND_READABLE = "          and (s.every is null or public.is_band(s.every))\n          and (s.cron"
_DUE: list[Guard] = [
    (
        "it takes what it does not have",
        "          and s.action = wanted.action\n          and (coalesce",
        "          and (coalesce",
        unknown.test_a_row_of_an_unknown_action_is_left_alone_and_counted_and_blocks_nobody,
    ),
    (
        "a request that asks again is given another row",
        "  if claims is not null then\n",
        "  if false then\n",
        batches.test_requests_that_ask_again_when_nothing_else_is_due_get_what_they_hold,
    ),
    (
        "it never gets past a busy row",
        "v_after_id[v_due.places[v_first]] := v_due.ids[v_first]",
        "null",
        guards.test_a_dispatcher_gets_past_busy_rows_of_the_same_time,
    ),
    (
        "it takes what is not due",
        "          and coalesce(s.next_run_at, '-infinity') <= v_now\n",
        GONE,
        due.test_rows_that_may_not_run_are_passed_over,
    ),
    (
        "a row that runs looks busy to it",
        _IS_FREE + _AND_READABLE,
        _AND_READABLE,
        due.test_rows_that_may_not_run_are_passed_over,
    ),
    (
        "it takes the newest first",
        "order by due.at, due.id\n      limit",
        "order by due.at desc, due.id\n      limit",
        due.test_the_oldest_due_row_is_claimed_first_whatever_its_action,
    ),
    (
        "every action has the same lease",
        "coalesce(p_leases[array_position(p_actions, wanted.action)], p_lease)",
        "p_lease",
        due.test_each_action_has_its_own_lease_and_backoff,
    ),
    (
        "every action has the same backoff",
        "coalesce(p_backoffs[array_position(p_actions, wanted.action)], p_backoff)",
        "p_backoff",
        due.test_each_action_has_its_own_lease_and_backoff,
    ),
]

ALL = [
    *mutants_of(TAKE, "a claim", _TAKEN),
    *mutants_of(GRANT, "a grant", _GRANTED),
    *mutants_of(REASON, "a reason", _REASONS),
    *mutants_of(DUE, "a dispatcher", _DUE),
]
