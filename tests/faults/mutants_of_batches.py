"""Mutants of the functions that claim, renew and finish many runs in one commit."""

from datetime import timedelta
from uuid import UUID

import psycopg

from tests.faults import test_between as between
from tests.faults.mutants import GONE, Guard, mutants_of
from tests.schema import test_batches as batches
from tests.schema import test_claim_due as due
from tests.schema import test_claim_due_together as together


def _poison(conn: psycopg.Connection) -> None:
    batches.test_a_poisoned_row_is_passed_and_named_and_the_others_are_claimed(conn, 7)


def _claimed(dsn: str, conn: psycopg.Connection) -> None:
    together.test_a_row_that_somebody_has_locked_is_passed_without_waiting(dsn, conn, "another's claim")


def _on_its_way(dsn: str, conn: psycopg.Connection) -> None:
    batches.test_requests_that_ask_again_while_their_first_claim_is_on_its_way_get_its_rows(dsn, conn, 3, 1)


_AGAIN = batches.test_requests_that_ask_again_get_what_they_hold_and_nothing_new
_ADVISORY = batches.test_a_batch_is_turned_away_from_a_row_by_its_advisory_lock
_RENEWED = batches.test_leases_are_renewed_together_a_busy_one_is_passed_over_and_a_lost_one_reported
_TAKEN: list[Guard] = [
    ("a row is claimed without the advisory lock", "where pg_try_advisory_xact_lock(v_key, i)", GONE, _ADVISORY),
    ("its advisory locks outlive it", "pg_try_advisory_xact_lock", "pg_try_advisory_lock", _ADVISORY),
    (
        "it waits for whoever claims",
        "where pg_try_advisory_xact_lock(v_key, i)",
        "where pg_advisory_xact_lock(v_key, i) is not null",
        _claimed,
    ),
    (
        "it waits for a row",
        "for no key update skip locked",
        "for no key update",
        batches.test_a_row_that_somebody_has_is_passed_by_a_batch_without_waiting,
    ),
    (
        "a row is claimed as any action",
        "        and s.action = asked.action\n",
        GONE,
        between.test_a_dispatcher_passes_a_row_whose_action_became_another,
    ),
    (
        "the leases are those of other rows",
        "array_agg(d.lease order by d.place)",
        "array_agg(d.lease order by d.place desc)",
        batches.test_each_action_of_a_batch_has_its_own_lease_and_backoff,
    ),
    (
        "the newest of them is answered first",
        "order by array_position(v_granted, (g.schedule).id)",
        "order by array_position(v_granted, (g.schedule).id) desc",
        batches.test_a_batch_takes_the_oldest_first_each_with_its_own_lease_fence_and_history,
    ),
]
_DOUBT = batches.test_a_batch_has_at_most_one_row_whose_last_two_runs_never_finished
_DUE: list[Guard] = [
    ("all that are in doubt run together", "where not n.in_doubt or n.nth = 1", GONE, _DOUBT),
    ("another one in doubt comes later", "v_in_doubt := v_in_doubt and not v_due.has_doubt;", GONE, _DOUBT),
    ("whoever runs one gets a second", "(v_in_doubt or not d.in_doubt)", "true", _DOUBT),
    ("a lease that ran out counts for nothing", "when s.locked_by is null then 0 else 1", "when true then 0", _DOUBT),
    ("a poisoned row stops it", "if v_size > 1 then", "if true then raise; elsif v_size > 1 then", _poison),
    (
        "a poisoned row is looked for again and again",
        "select '[]'::jsonb as claims, 1 ",
        "select '[]'::jsonb as claims, 0 ",
        _poison,
    ),
    (
        "a claim on its way is overlooked",
        "if sqlstate = '23505' then",
        "if false then",
        batches.test_requests_that_ask_again_among_others_have_one_row_each,
    ),
    (
        "a batch has no end",
        "cardinality(p_request_ids) > 1000",
        "false",
        lambda conn: batches.test_a_batch_has_one_to_a_thousand_requests(conn, 1001),
    ),
    (
        "nobody need ask",
        "coalesce(cardinality(p_request_ids), 0) = 0",
        "false",
        lambda conn: batches.test_a_batch_has_one_to_a_thousand_requests(conn, 0),
    ),
    (
        "a request is claimed for twice",
        "count(distinct r)",
        "count(r)",
        lambda conn: batches.test_the_requests_of_a_batch_are_all_there_and_all_differ(conn, 2 * [UUID(int=1)]),
    ),
    (
        "it does not wait for its first claim",
        "pg_advisory_xact_lock(public.refresh_lock_key('request'), hashtext(first.request_id))",
        GONE,
        _on_its_way,
    ),
]
_HELD: list[Guard] = [
    (
        "a run that is over is held",
        "continue when v_run.is_held is not true;",
        GONE,
        due.test_a_request_that_had_its_run_never_gets_another,
    ),
    ("a run that is over is nothing", "v_held := coalesce(v_held, '{}');", GONE, _AGAIN),
]
_FINISH: list[Guard] = [
    (
        "a lost lease has no answer",
        "coalesce(e.status, 'lost')",
        "e.status",
        batches.test_one_that_lost_its_lease_is_reported_lost_and_the_others_are_closed,
    ),
]
_END: list[Guard] = [
    (
        "what was counted is forgotten",
        "inserted = e.inserted",
        "inserted = null",
        batches.test_the_ends_of_a_batch_are_each_written_as_their_own,
    ),
    (
        "they are answered in any order",
        "order by e.ordinality",
        "order by e.ordinality desc",
        batches.test_the_ends_of_a_batch_are_each_written_as_their_own,
    ),
    (
        "it waits for a row",
        "for no key update of s skip locked",
        "for no key update of s",
        batches.test_a_row_that_somebody_else_has_locked_is_busy_and_the_others_end,
    ),
    (
        "a busy row is lost",
        "when s.function_name is not null then 'busy'",
        "when false then 'busy'",
        batches.test_a_row_that_somebody_else_has_locked_is_busy_and_the_others_end,
    ),
]
_RENEW: list[Guard] = [
    ("it waits for a row", "for no key update of s skip locked", "for no key update of s", _RENEWED),
    ("a busy row is lost", "else 'busy' end", "else 'lost' end", _RENEWED),
    ("a busy row is renewed", "\n    and s.id = any (v_locked);", ";", _RENEWED),
    (
        "a lease has no end",
        " or held.lease > interval '1 day'",
        GONE,
        lambda conn: batches.test_many_leases_are_each_longer_than_zero_and_at_most_a_day(conn, timedelta(days=2)),
    ),
    (
        "a lease is over at once",
        " or held.lease <= interval '0'",
        GONE,
        lambda conn: batches.test_many_leases_are_each_longer_than_zero_and_at_most_a_day(conn, timedelta(0)),
    ),
    (
        "a stranger says how long",
        "lease)\n  where s.function_name = held.function_name\n    and s.locked_by = held.request_id::text\n",
        "lease)\n  where s.function_name = held.function_name\n",
        batches.test_a_lease_is_renewed_by_its_own_measure_whoever_else_asks_for_its_row,
    ),
]

ALL = [
    *mutants_of("take_refresh_locks", "a batch", _TAKEN),
    *mutants_of("take_due_refreshes", "a batch", _DUE),
    *mutants_of("held_refreshes", "asked again", _HELD),
    *mutants_of("finish_refresh_runs", "ends", _FINISH),
    *mutants_of("end_refresh_runs", "ends", _END),
    *mutants_of("renew_refresh_locks", "renewals", _RENEW),
]
