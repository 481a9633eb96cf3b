"""Mutants: guards missing where schedules are made, recovered, unlocked, paused, replaced and deleted."""

from tests.faults import test_between as between
from tests.faults import test_guards as guards
from tests.faults.mutants import GONE, Guard, mutants_of
from tests.schema import test_lease as lease
from tests.schema import test_operator as operator
from tests.schema import test_race as race
from tests.schema import test_replace_action as replace
from tests.schema import test_schedule_action as create
from tests.schema import test_skip as skip

_RUNNING = "\n      and r.status = 'running'\n  ),"
_RECOVER: list[Guard] = [
    (
        "it breaks live leases",
        "s.locked_until <= clock_timestamp()",
        "true",
        lease.test_recover_never_breaks_a_live_lease,
    ),
    (
        "it takes the young ones too",
        "r.started_at > clock_timestamp() - p_older_than",
        "false",
        lease.test_recover_leaves_a_run_that_started_a_short_while_ago,
    ),
    (
        "it waits for busy rows",
        "for no key update skip locked",
        "for no key update",
        lease.test_recover_leaves_a_busy_row_to_whoever_is_busy_with_it,
    ),
    (
        "it does not lock the row",
        "    for no key update skip locked\n",
        GONE,
        lease.test_recover_leaves_a_busy_row_to_whoever_is_busy_with_it,
    ),
    (
        "it leaves the run open",
        _RUNNING,
        "\n      and false\n  ),",
        lease.test_recover_clears_a_lease_that_ran_out_and_closes_its_run,
    ),
    ("it abandons what has ended", _RUNNING, "\n  ),", guards.test_recovering_leaves_ended_runs_as_they_are),
    (
        "it does not count",
        "abandoned = s.abandoned + 1",
        "abandoned = s.abandoned",
        lease.test_recover_clears_a_lease_that_ran_out_and_closes_its_run,
    ),
]

_UNLOCK: list[Guard] = [
    (
        "it leaves the run open",
        "p_fence => v_fence",
        "p_fence => v_fence + 1",
        operator.test_an_unlocked_holder_can_never_write_again,
    ),
    (
        "it breaks anybody's lease",
        "locked_by = coalesce(p_request_id::text, locked_by)",
        "locked_by is not null",
        operator.test_unlocking_names_who_holds_it_and_can_be_meant_for_one_holder,
    ),
    (
        "it keeps the lease",
        "set locked_by = null,\n      locked_until = null,",
        "set",
        operator.test_an_unlocked_holder_can_never_write_again,
    ),
    (
        "it counts as a crash",
        "last_status = 'abandoned',",
        "last_status = 'abandoned', abandoned = s.abandoned + 1,",
        operator.test_an_unlocked_holder_can_never_write_again,
    ),
]

_IDLE: list[Guard] = [
    (
        "it takes what is running",
        "v_busy or v_row.locked_until > clock_timestamp()",
        "v_busy",
        operator.test_a_running_schedule_is_not_deleted,
    ),
    (
        "it takes what is being written",
        "v_busy or v_row.locked_until",
        "v_row.locked_until",
        replace.test_a_running_schedule_is_not_replaced,
    ),
    ("it waits for the row", "for update skip locked", "for update", replace.test_a_running_schedule_is_not_replaced),
    (
        "it does not lock the row",
        "\n  for update skip locked;",
        ";",
        between.test_a_deletion_looks_again_once_it_has_the_row,
    ),
    (
        "it leaves the run open",
        "p_fence => v_row.fence",
        "p_fence => v_row.fence + 1",
        operator.test_a_schedule_at_rest_is_deleted_and_its_history_stays,
    ),
]

_ABANDON: list[Guard] = [
    (
        "the newest run is spared",
        "r.fence >= p_fence",
        "r.fence > p_fence",
        operator.test_an_unlocked_holder_can_never_write_again,
    ),
    (
        "ended runs are abandoned too",
        "\n    and r.status = 'running'",
        GONE,
        guards.test_deleting_leaves_ended_runs_as_they_are,
    ),
    (
        "the runs of others are abandoned too",
        "r.function_name = p_function_name\n    and",
        GONE,
        guards.test_unlocking_leaves_the_runs_of_others_open,
    ),
]

_ENSURE: list[Guard] = [
    (
        "a row made again counts from zero",
        "coalesce(max(r.fence), 0)",
        "0",
        lease.test_the_fence_of_a_row_made_again_goes_on_from_its_last_run,
    ),
    (
        "it waits for one who creates",
        "not pg_try_advisory_xact_lock(public.refresh_lock_key('create'), hashtext(p_function_name))",
        "false",
        race.test_creating_the_row_never_waits_for_another_that_creates_it,
    ),
    (
        "two at once collide",
        "\n  on conflict (function_name) do nothing",
        GONE,
        between.test_ensuring_a_row_beside_an_insert_answers_as_that_ended,
    ),
]

_CREATE: list[Guard] = [
    (
        "a schedule made again counts from zero",
        "coalesce(max(r.fence), 0)",
        "0",
        replace.test_a_schedule_that_was_deleted_and_comes_back_goes_on_counting,
    ),
    (
        "one who ensures must wait for it",
        "  perform pg_try_advisory_xact_lock(public.refresh_lock_key('create'), hashtext(p_function_name));\n",
        GONE,
        create.test_creating_a_row_beside_an_open_transaction_waits_for_its_end,
    ),
    (
        "two at once collide",
        "\n      on conflict (function_name) do nothing",
        GONE,
        create.test_creating_a_row_beside_an_open_transaction_waits_for_its_end,
    ),
    (
        "a name that is taken is replaced",
        "elsif p_replace then",
        "elsif true then",
        create.test_a_name_that_is_taken_is_refused_and_nothing_changes,
    ),
    (
        "what is replaced keeps its lease",
        ",\n          locked_by = null,\n          locked_until = null",
        GONE,
        replace.test_replacing_what_never_finished_closes_it_for_good,
    ),
    (
        "what is replaced stays completed",
        "          completed_at = null,\n",
        GONE,
        replace.test_a_replacement_keeps_the_history_the_fence_and_the_pause_and_nothing_else,
    ),
]

_BAND: list[Guard] = [
    ("any text is one", "then false", "then true", skip.test_a_cadence_that_cannot_be_read_is_never_run),
    (
        "it may be upside down",
        "least(nullif(split_part(p_text, '..', 2), '')::interval, interval '3650 days')",
        "interval '3650 days'",
        skip.test_a_cadence_that_cannot_be_read_is_never_run,
    ),
]

_PAUSE: list[Guard] = [
    (
        "again, it begins anew",
        "coalesce(v_paused_at, clock_timestamp())",
        "clock_timestamp()",
        operator.test_pausing_again_keeps_the_time_and_takes_a_new_reason,
    ),
]

ALL = [
    *mutants_of("recover_stale_dispatches", "recover", _RECOVER),
    *mutants_of("unlock_refresh", "unlock", _UNLOCK),
    *mutants_of("hold_idle_refresh", "at rest", _IDLE),
    *mutants_of("abandon_refresh_run", "abandon", _ABANDON),
    *mutants_of("ensure_schedule", "ensure", _ENSURE),
    *mutants_of("schedule_action", "schedule", _CREATE),
    *mutants_of("is_band", "a band", _BAND),
    *mutants_of("pause_refresh", "pause", _PAUSE),
]
