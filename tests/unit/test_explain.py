"""The sentences of `cronlease explain`, and the words they are made of."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronlease.cli.table import lines, one_line
from cronlease.explain.backends import Backend
from cronlease.explain.format import in_words, relative
from cronlease.explain.rows import Details, PastRun, Schedule
from cronlease.explain.sentences import sentences

NOW = datetime(2026, 12, 24, 18, tzinfo=UTC)
REQUEST = "b0e84cf1-f696-41c7-a123-e918b0f5d7b7"


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


def said(
    *runs: PastRun, known: set[str] | None = None, backends: list[Backend] | None = None, **row: Any
) -> list[str]:
    schedule = Schedule(**{"function_name": "prune", "state": "pending", "due": False, "action": "tidy", **row})
    return sentences(Details(NOW, schedule, list(runs), {}, backends or []), known, "main.py")


def past(status: str, error: str | None = None) -> PastRun:
    return PastRun(REQUEST, status, "run_due", ago(minutes=4), None if status == "running" else ago(minutes=3), error)


def backend(**more: Any) -> Backend:
    """One that has waited for its client for a minute."""
    usual = ("prune", "row", 4711, "prices", "cronlease", True, ago(minutes=1), NOW, NOW + timedelta(minutes=8), True)
    return Backend(*usual)._replace(**more)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"once": True}, '"prune" runs the action "tidy" once.'),
        ({"every": "10m..15m"}, '"prune" runs the action "tidy" every 10m..15m.'),
        ({}, '"prune" runs the action "tidy" as often as its function or CRONLEASE_EVERY says.'),
    ],
)
def test_it_says_what_it_is(row: dict[str, Any], sentence: str) -> None:
    assert said(**row)[0] == sentence


@pytest.mark.parametrize(("trigger", "what"), [("exec", "`cronlease exec`"), ("lease", "`cronlease.lease()`")])
def test_a_name_that_no_function_is_the_action_of_is_a_lease(trigger: str, what: str) -> None:
    run = past("success")._replace(trigger=trigger)
    row: dict[str, Any] = {"action": "prune", "planned_from": "hit"}
    told = said(run, known={"tidy"}, **row)
    assert told[0] == f'"prune" is a lease, taken by {what} whenever it is free.'
    assert told[2] == f"It is free: the next {what} of that name runs; run-due and worker leave it alone."
    beat = {**row, "planned_from": "1h", "next_run_at": NOW + timedelta(hours=1)}
    assert said(run, known={"tidy"}, **beat)[2].startswith("It is not due until 2026-12-24 19:00:00 UTC, in 1 hour: ")
    assert "is a lease" not in said(run, known={"prune"}, **row)[0], "a function that was run by exec, too"
    assert "No function of main.py" in said(past("success"), known={"tidy"}, **row)[2]


def test_it_says_how_the_last_run_ended() -> None:
    assert said()[1] == "No run of it has ended yet."
    assert said(past("success"))[1] == "Its last run succeeded 3 minutes ago, after 1 minute."
    failed = past("failed", "ValueError: boom.")
    assert said(failed)[1] == "Its last run failed 3 minutes ago, after 1 minute: ValueError: boom."
    assert said(past("running"), failed)[1] == said(failed)[1]
    interrupted = past("interrupted", "interrupted: it was told to stop")
    assert said(interrupted)[1] == "Its last run was interrupted 3 minutes ago, after 1 minute: it was told to stop."
    forgotten = said(last_run_at=ago(days=40), last_status="partial", last_error="acme was left out", run_count=3)
    assert forgotten[1] == "Its last run did only a part of its work 40 days ago: acme was left out."


def test_a_run_that_stands_still_is_reported_with_what_ends_it() -> None:
    row: dict[str, Any] = {"state": "stale", "locked_by": REQUEST, "locked_until": ago(minutes=2), "due": True}

    def told(**more: Any) -> str:
        return said(past("running"), backends=[backend(**more)], **row)[2]

    assert "its transaction is still open, and until it ends every hit is skipped as locked" in told()
    assert "backend 4711 of the role prices (cronlease), which has waited for its client since " in told()
    assert "(in 8 minutes) on a hit that connects as prices ends it; " in told()
    assert told().endswith("`cronlease schedule unlock prune` ends it now.")
    assert "; the next hit that connects as prices ends it; " in told(overdue_at=NOW)
    assert "hit that connects" not in told(overdue_at=None), "an older revision does not say how long it may run"
    by_hand = "`select pg_terminate_backend(4711)` as prices or as a superuser ends it."
    assert told(may_end=False).endswith(by_hand)
    assert "(cronlease);" in told(waits_for_client=None, since=None), "what this role may not see is not said"
    assert "which has been at work since" in told(waits_for_client=False)
    then = said(past("running"), backends=[backend()], **row)[-1]
    assert then == "It is due, but no hit can run it before that has ended."
    claim = said(backends=[backend(holds="claim", overdue_at=None)])[2]
    assert claim.startswith("Every hit is skipped as locked, because the advisory lock of a claim is held by backend")
    assert claim.endswith(by_hand)


def test_it_says_who_runs_it_now_and_until_when() -> None:
    held: dict[str, Any] = {"locked_by": REQUEST, "locked_until": NOW + timedelta(minutes=2)}
    *_, running, then = said(past("running"), state="dispatching", **held)
    assert running.startswith(f"It is running now: request {REQUEST} has had the lease since ")
    assert "(4 minutes ago), until " in running
    assert running.endswith("(in 2 minutes) unless it is renewed.")
    assert "skipped as locked" in then


def test_a_paused_row_whose_lease_ran_out_waits_for_a_person() -> None:
    row: dict[str, Any] = {
        "state": "paused",
        "paused_at": ago(minutes=1),
        "locked_by": REQUEST,
        "locked_until": ago(minutes=2),
    }
    lease, then = said(past("running"), **row)[2:]
    assert lease.startswith(f"Request {REQUEST} has had the lease since ")
    assert lease.endswith(
        "and it ran out 2 minutes ago before the run finished: `cronlease recover --all` clears it."
    )
    assert then.startswith("It will not run: it was paused 1 minute ago;")
    writing = said(past("running"), backends=[backend()], **row)[2]
    assert "ran out 2 minutes ago, but its transaction is still open: backend 4711 of the role prices" in writing
    assert writing.endswith("; `cronlease schedule unlock prune` ends it now."), "no hit ends it"
    assert not [line for line in said(backends=[backend(holds="prepared", gid="x")], **row) if "Every hit" in line]


def test_it_says_that_a_lease_ran_out() -> None:
    stale, due = said(past("running"), state="stale", due=True, locked_by=REQUEST, locked_until=ago(seconds=40))[2:]
    assert "ran out 40 seconds ago before the run finished" in stale
    assert "cronlease recover --all" in stale
    assert due == "It is due: the next hit, run-due or worker runs it."


LATER = NOW + timedelta(minutes=12)


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ({"state": "completed", "once": True, "completed_at": ago(hours=2)}, ("will not run again", "2 hours ago")),
        (
            {"state": "paused", "paused_at": ago(days=1), "paused_reason": "the feed is down"},
            ("will not run: it was paused 1 day ago: the feed is down;", "cronlease schedule resume prune"),
        ),
        ({"state": "paused", "paused_at": ago(days=1)}, ("was paused 1 day ago;",)),
        ({"next_run_at": LATER}, ("not due until ", "in 12 minutes; `cronlease schedule run prune --force`")),
        ({"next_run_at": NOW + timedelta(milliseconds=300)}, (", in less than a second; `cronlease",)),
        ({"next_run_at": LATER, "failures": 1}, ("in 12 minutes: that is the backoff after failing once;",)),
        ({"next_run_at": LATER, "failures": 3}, ("the backoff after failing 3 times in a row;",)),
        ({"next_run_at": LATER, "abandoned": 3}, ("the backoff after its runs were abandoned 3 times in a row;",)),
        ({"next_run_at": LATER, "abandoned": 2}, ("in 12 minutes; ",)),
        ({"every": "often", "every_is_readable": False, "due": True}, ('It cannot run: "often" is not a cadence',)),
        ({"next_run_at": ago(minutes=5), "due": True}, ("It is due since ", "(5 minutes ago)")),
        ({}, ("not due at any time",)),
    ],
)
def test_it_says_whether_and_when_it_runs_next(row: dict[str, Any], parts: tuple[str, ...]) -> None:
    last = said(**row)[-1]
    assert all(part in last for part in parts), last


def test_a_cron_that_cannot_be_read_is_named_with_what_fixes_it() -> None:
    why = "'61 * * * *' is not a cron expression (bad minute): write five fields, such as */5 * * * *"
    fix = '`cronlease schedule create prune --replace --cron "0 9 * * 1-5" ...` fixes it.'
    assert said(cron="61 * * * *")[2:] == [f"It cannot run: {why}; {fix}"]
    planned: dict[str, Any] = {"cron": "61 * * * *", "next_run_at": ago(minutes=5), "due": True}
    due, *then = said(**planned)[2:]
    assert due.startswith("It is due since ")
    assert then == [f"It cannot be planned again: {why}; {fix}"]
    waits = said(cron="1 * * * *")[2]
    assert waits == "It is not due: the next hit, run-due or worker that sees it plans its next slot."


def test_args_that_cannot_be_read_are_named_with_what_fixes_it() -> None:
    row: dict[str, Any] = {"once": True, "due": True, "next_run_at": ago(minutes=5), "args_are_readable": False}
    fix = "`cronlease schedule create prune --replace --args '{}' ...` fixes it."
    assert said(**row, args={"unreadable": "nested"})[2:] == [
        f"It cannot run: its args cannot be read (nested); {fix}"
    ]
    assert said(**row)[2:] == [f"It cannot run: its args cannot be read; {fix}"], "whoever may not see args"
    readable = {**row, "args_are_readable": True, "args": {"unreadable": "theirs"}}
    assert said(**readable)[2].startswith("It is due since ")


def test_it_says_what_went_wrong_before_although_it_is_due() -> None:
    assert said(due=True, abandoned=2)[-1] == (
        "Its runs were abandoned twice in a row; after the third in a row, each further one costs a backoff."
    )
    assert said(due=True, abandoned=3)[-1] == (
        "Its runs were abandoned 3 times in a row; the next run pays a backoff in advance, in case"
        " it is abandoned, too."
    )
    assert said(due=True, failures=1)[-1] == "It has failed once."


def test_it_says_that_a_deployment_does_not_know_its_action() -> None:
    assert said(known={"other"}, due=True)[-1].startswith('No function of main.py is the action "tidy"')
    assert said(known={"tidy"}, due=True)[-1].startswith("It is due")


def test_a_paused_run_in_progress_may_finish() -> None:
    held: dict[str, Any] = {"locked_by": REQUEST, "locked_until": LATER}
    assert said(state="dispatching", paused_at=ago(hours=1), **held)[-1].endswith("The run in progress may finish.")


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (timedelta(milliseconds=20), "less than a second"),
        (timedelta(seconds=1), "1 second"),
        (timedelta(seconds=2.99), "3 seconds"),
        (timedelta(minutes=12, seconds=20), "12 minutes"),
        (timedelta(minutes=12, seconds=40), "13 minutes"),
        (timedelta(minutes=59, seconds=59.9), "1 hour"),
        (timedelta(minutes=9, seconds=59.8), "10 minutes"),
        (timedelta(hours=23, minutes=40), "1 day"),
        (timedelta(days=1, hours=23, minutes=40), "2 days"),
        (timedelta(minutes=2, seconds=1), "2 minutes 1 second"),
        (timedelta(hours=1, minutes=20, seconds=30), "1 hour 20 minutes"),
        (timedelta(days=3), "3 days"),
        (timedelta(days=400, hours=5), "400 days"),
    ],
)
def test_a_length_is_written_as_a_person_would_say_it(length: timedelta, words: str) -> None:
    assert in_words(length) == words
    assert relative(NOW + length, NOW) in (f"in {words}", "now")
    assert relative(NOW - length, NOW) in (f"{words} ago", "now")


def test_a_name_cannot_write_on_the_terminal() -> None:
    assert one_line("a\x1b[2J\nb\tc") == "a?[2J b c"
    heading, rule, row = lines(("name", "error"), [("x" * 50, "\x07" + "y" * 60)])
    assert rule.startswith("-" * 40 + "  ")
    assert row == "x" * 39 + "…  ?" + "y" * 60
    assert heading.startswith("name ")


def test_it_says_that_a_run_was_left_open_without_a_lease() -> None:
    *_, left, then = said(past("running"), due=True)
    assert left.startswith(f"Request {REQUEST} is still recorded as running since ")
    assert "(4 minutes ago), without a lease" in left
    assert "`cronlease recover --all`" in left
    assert then.startswith("It is due")
    held: dict[str, Any] = {"locked_by": REQUEST, "locked_until": NOW + timedelta(minutes=2)}
    assert not [line for line in said(past("running"), state="dispatching", **held) if "without a lease" in line]


def test_it_says_that_a_breaker_is_open_and_how_to_close_it() -> None:
    closes = "`cronlease schedule resume prune` lets it run again now."
    until = NOW + timedelta(hours=6)
    stopped = said(state="breaker_open", failures=10, breaker_until=until, next_run_at=until)[2]
    assert stopped.startswith("It is stopped by its breaker after failing 10 times in a row, until 2026-12-2")
    assert stopped.endswith(f"in 6 hours, when one run is let through as a probe; {closes}")
    probe = said(state="breaker_open", due=True, failures=10, breaker_until=ago(hours=1))[2]
    assert probe.endswith(f"until now: the next hit, run-due or worker runs it as the probe; {closes}")


def test_it_says_that_it_is_late() -> None:
    row: dict[str, Any] = {"state": "late", "due": True, "next_run_at": ago(hours=3), "late_at": ago(hours=2)}
    assert "It is late: check that its trigger still works." in said(**row)
