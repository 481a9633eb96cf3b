"""Mutants: guards missing where a frozen run is ended, and where SQL bounds its arguments."""

from datetime import timedelta

import psycopg

from tests.faults.mutants import GONE, Mutant, mutants_of
from tests.schema import test_bounds as bounds
from tests.schema import test_frozen as frozen


def _hit(dsn: str, conn: psycopg.Connection) -> None:
    frozen.test_an_overdue_holder_is_ended_and_the_next_claim_takes_over(dsn, conn, dispatched=False)


def _dispatched(dsn: str, conn: psycopg.Connection) -> None:
    frozen.test_an_overdue_holder_is_ended_and_the_next_claim_takes_over(dsn, conn, dispatched=True)


def _args(conn: psycopg.Connection) -> None:
    bounds.test_args_that_a_client_could_not_read_are_refused_where_rows_are_made(conn, *bounds.ARGS["too deep"])


def _args_of(kind: str) -> Mutant:
    def killer(conn: psycopg.Connection) -> None:
        bounds.test_args_that_a_client_could_not_read_are_refused_where_rows_are_made(conn, *bounds.ARGS[kind])

    guards = {
        "too large": ("octet_length(p_args::text) > 1000000", "false"),
        "too deep": ("jsonb_path_exists(p_args, 'strict $.**{201}')", "false"),
        "too long a number": ("@ >= 1e300 || ", GONE),
        "too long a negative number": (" || @ <= -1e300", GONE),
    }
    return Mutant(f"args may be {kind}", "args_mistake", *guards[kind], killer)


def _delay(conn: psycopg.Connection) -> None:
    bounds.test_a_delay_out_of_bounds_is_cut_and_the_end_is_written(conn, "failed", 400)


def _retention(conn: psycopg.Connection) -> None:
    bounds.test_an_hour_of_history_is_kept_whatever_is_asked(conn, -timedelta(days=1))


def _max_run(conn: psycopg.Connection) -> None:
    bounds.test_a_max_run_is_neither_negative_nor_endless(conn, timedelta(seconds=-1))


_OVERDUE = "r.overdue_at <= clock_timestamp()"
ALL = [
    *mutants_of(
        "take_refresh_lock",
        "a claim",
        [
            ("a healthy holder is ended", _OVERDUE, "r.overdue_at is not null", _hit),
            (
                "a run that says no max run is ended",
                _OVERDUE,
                "true",
                frozen.test_a_run_that_did_not_say_how_long_it_takes_is_never_ended,
            ),
            ("a lease has no end", "p_lease > interval '1 day'", "false", bounds.test_a_lease_is_at_most_a_day),
            ("a max run may be negative", "between interval '0'", "between interval '-1 day'", _max_run),
            ("args are not looked at", "else public.args_mistake(p_args => p_args)", GONE, _args),
        ],
    ),
    *mutants_of(
        "grant_refresh_locks",
        "a grant",
        [
            (
                "a backoff has no end",
                "asked.backoff > interval '400 days'",
                "false",
                bounds.test_a_backoff_in_advance_is_cut_too,
            ),
        ],
    ),
    *mutants_of(
        "acquire_refresh_lock", "a hit", [("a frozen run is left", "if v_overdue then", "if false then", _hit)]
    ),
    *mutants_of(
        "take_due_refreshes",
        "a dispatcher",
        [("a frozen run is left", "overdue_name := v_took.overdue_name", "overdue_name := null", _dispatched)],
    ),
    *mutants_of(
        "assert_lease",
        "assert",
        [
            ("its backend cannot be found", "('write')", "('create')", _hit),
            (
                "it waits for a mark",
                "pg_try_advisory_xact_lock_shared",
                "pg_advisory_xact_lock_shared",
                frozen.test_a_fence_waits_for_no_mark,
            ),
        ],
    ),
    *mutants_of(
        "refresh_holders",
        "a holder",
        [
            (
                "whoever has the mark is one",
                "\n  and writing.transactionid = s.xmax",
                GONE,
                frozen.test_only_the_backend_that_has_the_row_is_ended,
            )
        ],
    ),
    *mutants_of(
        "unlock_refresh",
        "unlock",
        [
            (
                "it leaves the backend",
                "public.end_refresh_holder(p_function_name => p_function_name, p_locked_by => p_request_id::text)",
                "null",
                frozen.test_unlocking_ends_the_holder_at_any_time,
            )
        ],
    ),
    *mutants_of(
        "renew_refresh_lock",
        "renew",
        [("a lease has no end", "p_lease > interval '1 day'", "false", bounds.test_a_lease_is_at_most_a_day)],
    ),
    *mutants_of(
        "refresh_after_end",
        "finish",
        [("a delay has no end", "p_delay > v_most", "false", _delay)],
    ),
    *mutants_of(
        "end_refresh_runs",
        "finish",
        [
            (
                "all history can be deleted",
                "interval '30 days'), interval '1 hour')",
                "interval '30 days'))",
                _retention,
            )
        ],
    ),
    *map(_args_of, bounds.ARGS),
]
