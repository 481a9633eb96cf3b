"""Mutants: guards missing between a claim and its end: renew, assert, finish, release."""

from tests.faults import test_guards as guards
from tests.faults.mutants import AND_NO_LOCK, CLOCK, FENCE, GONE, HOLDER, LOCK, SKIP, Guard, mutants_of
from tests.schema import test_acquire as acquire
from tests.schema import test_finish as finish
from tests.schema import test_lease as lease
from tests.schema import test_prune as prune

_RECORDED = "\n        and r.status in ('success', 'partial', 'failed', 'interrupted')"
_OWN_FINISH: list[Guard] = [
    (
        "a lost lease is no error",
        "if status is null then",
        "if false then",
        finish.test_a_replaced_runs_data_rolls_back_with_its_finish,
    ),
    (
        "it waits without its fence",
        FENCE + LOCK,
        LOCK,
        finish.test_whoever_does_not_hold_the_lease_is_told_without_waiting_for_the_row,
    ),
    (
        "it waits without the lease",
        HOLDER + FENCE + LOCK,
        FENCE + LOCK,
        finish.test_whoever_does_not_hold_the_lease_is_told_without_waiting_for_the_row,
    ),
    (
        "it does not lock the row",
        FENCE + LOCK,
        AND_NO_LOCK,
        finish.test_the_next_run_counts_from_the_moment_the_row_could_be_had,
    ),
]
_END: list[Guard] = [
    ("without its fence", "\n      and s.fence = run.fence", GONE, finish.test_only_the_holder_may_finish),
    ("by anybody", "s.locked_by = run.request_id::text", "true", finish.test_only_the_holder_may_finish),
    (
        "it counts from before the lock",
        CLOCK,
        "  v_now := statement_timestamp();\n",
        finish.test_the_next_run_counts_from_the_moment_the_row_could_be_had,
    ),
    (
        "it counts from its transaction's start",
        CLOCK,
        "  v_now := now();\n",
        finish.test_the_next_run_counts_from_the_moment_the_row_could_be_had,
    ),
    (
        "asked again it does not know",
        "and r.status in ('success',",
        "and false and r.status in ('success',",
        finish.test_a_second_finish_answers_what_was_recorded_and_changes_nothing,
    ),
    ("an abandoned run has finished", _RECORDED, GONE, finish.test_a_run_that_was_closed_as_abandoned_cannot_finish),
    (
        "a finished run answers to any fence",
        "\n        and r.fence = v_end.fence",
        GONE,
        finish.test_a_second_finish_answers_what_was_recorded_and_changes_nothing,
    ),
    (
        "a finished run answers to any name",
        "\n        and r.function_name = v_end.function_name\n        and r.fence",
        "\n        and r.fence",
        guards.test_a_finished_run_is_told_only_under_its_own_name,
    ),
    (
        "abandoned runs are never forgiven",
        "          abandoned = (e.schedule).abandoned,\n",
        GONE,
        acquire.test_a_run_that_finishes_ends_the_row_of_abandoned_ones,
    ),
    (
        "the run stays open",
        "where r.request_id = e.request_id\n",
        "where false\n",
        finish.test_finish_closes_the_run_with_its_counts,
    ),
    (
        "a run forgets itself",
        "\n            and old.request_id <> v_end.request_id",
        GONE,
        finish.test_a_run_older_than_the_retention_keeps_its_own_record,
    ),
    (
        "a run forgets the history of others",
        "old.function_name = v_end.function_name\n            and",
        GONE,
        finish.test_finish_deletes_at_most_a_hundred_old_runs_of_its_own_function,
    ),
]
_AFTER: list[Guard] = [
    (
        "it keeps the lease",
        "  v_row.locked_by := null;\n  v_row.locked_until := null;\n",
        GONE,
        finish.test_finish_frees_the_lease_and_moves_the_next_run_by_the_delay,
    ),
    (
        "a one-shot never completes",
        "v_row.completed_at := case when p_row.once and v_done then p_at end",
        "v_row.completed_at := null",
        acquire.test_a_one_shot_is_claimed_like_any_other_until_it_completes,
    ),
    (
        "a one-shot that fails is completed",
        "v_row.completed_at := case when p_row.once and v_done",
        "v_row.completed_at := case when p_row.once",
        finish.test_a_one_shot_that_does_not_succeed_is_pending_again,
    ),
    (
        "a run may end in any word",
        "p_status is null or p_status not in ('success', 'partial', 'failed', 'interrupted')",
        "false",
        finish.test_a_run_ends_in_one_of_four_ways,
    ),
    ("a failure is not counted", "p_row.failures + 1", "p_row.failures", finish.test_failures_in_a_row_are_counted),
]

_PRUNE: list[Guard] = [
    (
        "a run in progress is deleted",
        "r.status <> 'running'",
        "true",
        prune.test_a_run_that_is_recorded_as_running_is_never_deleted,
    ),
    (
        "the newest run of a row is deleted",
        "newer.fence > r.fence",
        "newer.fence >= r.fence",
        prune.test_old_runs_of_every_name_are_deleted_and_the_newest_of_a_name_with_a_row_stays,
    ),
    (
        "a name that is gone keeps its history",
        "or not exists (select from public.refresh_schedule s where s.function_name = r.function_name)",
        "",
        prune.test_one_shots_that_completed_long_ago_are_deleted_with_their_runs,
    ),
    (
        "the retention has no lower bound",
        "greatest(coalesce(p_retention, interval '30 days'), interval '1 hour')",
        "p_retention",
        prune.test_one_call_deletes_a_bounded_number_and_an_hour_is_always_kept,
    ),
    (
        "those behind the ones that stay have no turn",
        "array[v_oldest, v_oldest + random() * (v_before - v_oldest)]",
        "array[v_oldest]",
        prune.test_runs_that_must_stay_do_not_shield_those_behind_them,
    ),
]

_ASSERT: list[Guard] = [
    ("without its fence", FENCE, GONE, lease.test_assert_lease_raises_when_the_lease_is_not_ours),
    ("for anybody", HOLDER, GONE, lease.test_assert_lease_raises_when_the_lease_is_not_ours),
    (
        "it does not lock the row",
        FENCE + LOCK,
        AND_NO_LOCK,
        lease.test_assert_lease_keeps_the_row_until_the_transaction_ends,
    ),
    (
        "it never raises",
        "if not found then",
        "if false then",
        lease.test_assert_lease_raises_when_the_lease_is_not_ours,
    ),
]

_ANSWER = "case when found then 'busy' else 'lost' end"
_RENEW: list[Guard] = [
    ("without its fence", HOLDER + FENCE + SKIP, HOLDER + SKIP, lease.test_a_lease_that_is_not_ours_is_lost),
    ("for anybody", HOLDER + FENCE + SKIP, FENCE + SKIP, lease.test_a_lease_that_is_not_ours_is_lost),
    ("it waits for the row", SKIP, LOCK, lease.test_renewing_a_row_that_is_locked_answers_busy_immediately),
    (
        "it does not lock the row",
        FENCE + SKIP,
        AND_NO_LOCK,
        lease.test_renewing_a_row_that_is_locked_answers_busy_immediately,
    ),
    (
        "it counts from its transaction's start",
        "clock_timestamp()",
        "now()",
        lease.test_a_renewed_lease_counts_from_the_moment_of_renewal,
    ),
    ("busy is lost", _ANSWER, "'lost'", lease.test_renewing_a_row_that_is_locked_answers_busy_immediately),
    ("lost is busy", _ANSWER, "'busy'", lease.test_a_lease_that_is_not_ours_is_lost),
]

_RELEASE: list[Guard] = [
    ("without its request", "\n" + HOLDER.rstrip(), GONE, lease.test_only_the_holder_releases),
    (
        "it moves the fence back",
        "set locked_by = null",
        "set fence = s.fence - 1, locked_by = null",
        lease.test_the_fence_only_rises,
    ),
]

ALL = [
    *mutants_of("finish_refresh_run", "finish", _OWN_FINISH),
    *mutants_of("end_refresh_runs", "finish", _END),
    *mutants_of("refresh_after_end", "finish", _AFTER),
    *mutants_of("prune_refresh_history", "prune", _PRUNE),
    *mutants_of("assert_lease", "assert", _ASSERT),
    *mutants_of("renew_refresh_lock", "renew", _RENEW),
    *mutants_of("release_refresh_lock", "release", _RELEASE),
]
