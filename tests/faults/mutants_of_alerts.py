"""Mutants: guards missing where a breaker opens and closes, and where alerts are decided and delivered."""

from collections.abc import Callable

import psycopg

from tests.faults.mutants import GONE, mutants_of
from tests.schema import test_alerts as alerts
from tests.schema import test_breaker as breaker


def _stays_open(conn: psycopg.Connection) -> None:
    breaker.test_it_stays_open_whatever_somebody_makes_of_the_next_run(conn, "null")


def _probe(conn: psycopg.Connection) -> None:
    breaker.test_one_probe_is_let_through_and_its_end_decides(conn, dispatched=False)


def _not_late(because: str) -> Callable[[psycopg.Connection], None]:
    def killer(conn: psycopg.Connection) -> None:
        alerts.test_nothing_is_late_that_is_not_to_run(conn, because)

    return killer


def _late_band(conn: psycopg.Connection) -> None:
    alerts.test_how_late_is_late(conn, "10m..15m", {}, 45)


def _late_briefly(conn: psycopg.Connection) -> None:
    alerts.test_how_late_is_late(conn, "1m..2m", {}, 25)


ALL = [
    *mutants_of(
        "refresh_skip_reason",
        "a breaker",
        [
            ("hits pass it", "when (p_row).breaker_until > p_at then", "when false then", _stays_open),
            (
                "force does not pass it",
                "when p_force then null",
                "when p_force and (p_row).breaker_until is null then null",
                breaker.test_force_passes_it_and_the_end_of_that_run_counts,
            ),
            (
                "version 0.1 is told a word it does not know",
                "case when p_early then 'breaker_open' else 'not_due' end",
                "'breaker_open'",
                breaker.test_version_0_1_is_answered_not_due_with_the_time_of_the_probe,
            ),
        ],
    ),
    *mutants_of(
        "refresh_next_at",
        "a breaker",
        [
            (
                "the time of the probe is not told",
                "greatest((p_row).next_run_at, (p_row).breaker_until)",
                "(p_row).next_run_at",
                breaker.test_version_0_1_is_answered_not_due_with_the_time_of_the_probe,
            ),
        ],
    ),
    *mutants_of(
        "take_due_refreshes",
        "a breaker",
        [
            (
                "a dispatcher is held up by it",
                "\n          and (s.breaker_until is null or s.breaker_until <= v_now)",
                GONE,
                _stays_open,
            ),
        ],
    ),
    *mutants_of(
        "refresh_after_end",
        "a breaker",
        [
            (
                "it opens too early",
                "v_failures >= coalesce(p_row.pause_after",
                "v_failures + 1 >= coalesce(p_row.pause_after",
                breaker.test_it_opens_with_the_last_of_so_many_failed_runs_in_a_row,
            ),
            (
                "the caller's rule comes before the row's",
                "coalesce(p_row.pause_after, p_pause_after)",
                "coalesce(p_pause_after, p_row.pause_after)",
                breaker.test_a_rows_own_rule_comes_before_the_callers_and_works_without_one,
            ),
            (
                "whoever does not know of it closes it",
                "p_row.breaker_until is not null and p_probe is null",
                "false",
                breaker.test_a_caller_that_does_not_know_the_breaker_does_not_close_it_by_failing,
            ),
            (
                "it stops a one-shot that is out of attempts",
                "coalesce(not (p_row.once and v_is_out), true)",
                "true",
                breaker.test_a_one_shot_that_is_out_of_attempts_is_paused_and_not_stopped_by_a_breaker,
            ),
            (
                "an interrupted probe closes it",
                "when p_status = 'interrupted' then p_row.breaker_until\n",
                "when false then null\n",
                breaker.test_an_interrupted_probe_comes_again,
            ),
            (
                "the row goes on with the next slot",
                "not v_is_forced and not v_opens and p_slot_at",
                "not v_is_forced and p_slot_at",
                breaker.test_an_open_breaker_keeps_the_slot_and_gives_the_probe_all_attempts,
            ),
            (
                "the probe has no attempts left",
                "v_done or v_goes_on or v_opens and v_is_slotted",
                "v_done or v_goes_on",
                breaker.test_an_open_breaker_keeps_the_slot_and_gives_the_probe_all_attempts,
            ),
            (
                "the next run comes before the probe",
                "    when v_opens then v_breaker\n",
                GONE,
                breaker.test_it_opens_with_the_last_of_so_many_failed_runs_in_a_row,
            ),
            (
                "a forced success leaves the row waiting",
                "    when v_is_forced and v_breaker is null then public.refresh_due_closed(p_row, p_at)\n",
                GONE,
                breaker.test_a_forced_success_gives_back_what_the_breaker_has_put_off,
            ),
            (
                "nobody knows since when",
                "coalesce(p_row.incident_at, p_at)",
                "p_at",
                alerts.test_a_schedule_that_fails_is_alerted_once_and_once_when_it_is_well_again,
            ),
        ],
    ),
    *mutants_of(
        "resume_refresh",
        "a breaker",
        [
            (
                "resuming does not close it",
                "        breaker_until = null,\n",
                GONE,
                breaker.test_resume_closes_it_and_it_is_due,
            ),
            (
                "the row waits for the probe all the same",
                "        next_run_at = public.refresh_due_closed(s, v_now),\n",
                GONE,
                breaker.test_resume_closes_it_and_it_is_due,
            ),
            (
                "that it opens again is not told",
                "        told = array_remove(s.told, 'breaker_open'),\n",
                GONE,
                breaker.test_once_closed_by_hand_it_opens_again_with_the_next_failure_and_says_so,
            ),
            (
                "the time of a pause makes it late",
                "else s.late_at + (v_now - s.paused_at)",
                "else s.late_at",
                alerts.test_the_time_of_a_pause_does_not_make_it_late,
            ),
        ],
    ),
    *mutants_of(
        "plan_refresh",
        "a breaker",
        [
            (
                "a new plan brings the probe forward",
                "v_next := public.refresh_next_at(v_row, v_now);",
                "v_next := v_row.next_run_at;",
                breaker.test_a_new_plan_does_not_bring_the_probe_forward,
            ),
        ],
    ),
    *mutants_of(
        "tell_refresh_end",
        "an alert",
        [
            (
                "it is told at every failure",
                "\n    or v_kind = any (v_told)",
                GONE,
                alerts.test_a_schedule_that_fails_is_alerted_once_and_once_when_it_is_well_again,
            ),
            (
                "nobody remembers what was told",
                "then v_told || array['failing']",
                "then v_told",
                alerts.test_a_schedule_that_fails_is_alerted_once_and_once_when_it_is_well_again,
            ),
            (
                "what was well is well again",
                "\n    or (v_kind = 'recovered' and cardinality(v_told) = 0)",
                GONE,
                alerts.test_a_schedule_that_fails_is_alerted_once_and_once_when_it_is_well_again,
            ),
            (
                "a breaker is told and its failing again",
                "array['failing', v_kind]",
                "array[v_kind]",
                breaker.test_a_failure_is_not_alerted_again_where_the_rule_is_taken_off,
            ),
            (
                "what could not be written counts as told",
                "  ) then\n    return v_told;",
                "  ) then\n    return array['failing'];",
                alerts.test_an_alert_that_cannot_be_written_does_not_keep_a_run_from_ending,
            ),
        ],
    ),
    *mutants_of(
        "tell_refresh_abandoned",
        "an alert",
        [
            (
                "a claim that nobody used is told",
                " or p_row.last_status is distinct from 'abandoned'",
                GONE,
                alerts.test_a_claim_that_nobody_used_causes_no_alert_at_the_next_end,
            ),
        ],
    ),
    *mutants_of(
        "write_refresh_alert",
        "an alert",
        [
            (
                "it keeps a run from ending",
                "    return false;\nend",
                "    raise;\nend",
                alerts.test_an_alert_that_cannot_be_written_does_not_keep_a_run_from_ending,
            ),
        ],
    ),
    *mutants_of(
        "refresh_is_late",
        "late",
        [
            (
                "while it runs",
                "coalesce((p_row).locked_until <= p_at, true)",
                "true",
                _not_late("locked_by = 'somebody', locked_until = clock_timestamp() + interval '1 minute'"),
            ),
            (
                "before it is due",
                "coalesce((p_row).next_run_at <= p_at, true)",
                "true",
                _not_late("next_run_at = clock_timestamp() + interval '1 minute'"),
            ),
        ],
    ),
    *mutants_of(
        "refresh_late_at",
        "late",
        [
            ("after one interval", "2 * least", "1 * least", _late_band),
            ("at once for what is frequent", "interval '10 minutes',\n", "interval '0',\n", _late_briefly),
        ],
    ),
    *mutants_of(
        "claim_refresh_alerts",
        "an alert",
        [
            (
                "a late row is told at each look",
                "      and 'late' <> all (s.told)\n",
                GONE,
                alerts.test_a_late_schedule_is_alerted_once_by_whoever_looks,
            ),
            (
                "a busy row is waited for",
                "    order by s.late_at\n    limit 100\n    for no key update skip locked",
                "    order by s.late_at\n    limit 100\n    for no key update",
                alerts.test_what_is_late_and_busy_is_left_to_the_next_look,
            ),
            (
                "two deliver out of order",
                "\n    where a.id = v_head\n    for update skip locked",
                "\n    where a.id = v_head",
                alerts.test_two_that_look_at_the_same_time_do_not_split_alerts_that_have_an_order,
            ),
            (
                "what failed is tried at each look",
                "                  and earlier.held_until > clock_timestamp()\n",
                "                  and false\n",
                alerts.test_what_failed_waits_longer_each_time_and_all_behind_it_wait_too,
            ),
            (
                "old news are told",
                "old.created_at < v_now - interval '1 day'",
                "false",
                alerts.test_what_nobody_could_deliver_within_a_day_is_dropped,
            ),
        ],
    ),
    *mutants_of(
        "settle_refresh_alerts",
        "an alert",
        [
            (
                "a deliverer that was held up frees what another has",
                "  where a.id = any (p_unsent)\n    and a.held_by = p_holder",
                "  where a.id = any (p_unsent)",
                alerts.test_a_deliverer_that_died_is_followed_by_another_and_changes_nothing_of_theirs,
            ),
            (
                "what was delivered is told again",
                "where a.id = any (p_delivered)",
                "where false",
                alerts.test_a_schedule_that_fails_is_alerted_once_and_once_when_it_is_well_again,
            ),
        ],
    ),
]
