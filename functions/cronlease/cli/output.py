"""What the verbs print: a line per outcome for a person, JSON for a program."""

import json
import logging
import os
import sys
from collections.abc import Collection
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO, cast

import click

from cronlease.cli.table import one_line
from cronlease.explain.format import at, how_to_resume, relative, without_status
from cronlease.explain.rows import Schedule
from cronlease.observe import logs
from cronlease.outcome import FailReason, Outcome, SkipReason
from cronlease.process import spawn_guard
from cronlease.settings import Settings

WHERE = "`cronlease --debug ...` shows where"
_SAID_BY_VERBS = {"run_skipped", "run_interrupted", "run_lease_lost"}


def as_json(document: Any) -> None:
    click.echo(json.dumps(document, default=_written, ensure_ascii=False))


def text(line: str) -> None:
    """Only what is printable reaches the terminal."""
    click.echo(one_line(line))


def answer(document: dict[str, Any], sentence: str, *, in_json: bool) -> None:
    """The answer of a verb, in the form asked for."""
    if in_json:
        as_json(document)
    else:
        text(sentence)


def may_be_more(limit: int) -> None:
    """Under a list that is as long as it may be."""
    click.echo(f"There may be more: --limit shows more than {limit}.", err=True)


def next_run(row: Schedule, now: datetime) -> str:
    """When it runs next, or why it does not."""
    if row.state == "dispatching":
        return "running"
    if row.completed_at is not None:
        return "completed"
    if row.paused_at is not None:
        return f"paused: {row.paused_reason}" if row.paused_reason else "paused"
    if row.due:
        return "due now"
    if row.breaker_until is not None:
        return f"stopped by its breaker, probe {relative(row.breaker_until, now)}"
    if row.next_run_at is not None:
        return f"due {relative(row.next_run_at, now)}"
    if row.planned_from == "hit":
        return "at each hit"
    return "not planned yet" if row.cron or " " in (row.planned_from or "") else "never due"


def outcome(outcome: Outcome, *, in_json: bool, one_of_many: bool = False) -> None:
    """How a run here ended, in the form asked for. Of many only the last line says how to see more."""
    if in_json:
        as_json(outcome.as_json())
    else:
        hint = _hint(outcome)
        print_with_hint(outcome_line(outcome), None if one_of_many and hint == WHERE else hint)


def _hint(outcome: Outcome) -> str | None:
    if outcome.skipped is SkipReason.PAUSED:
        return how_to_resume(outcome.function)
    if outcome.failed is FailReason.FAILED and not shows_where():
        return WHERE
    # How to force it is on the line itself.
    if outcome.skipped is SkipReason.BREAKER_OPEN:
        return how_to_resume(outcome.function)
    return None if outcome.skipped is SkipReason.NOT_DUE else outcome.hint


def print_with_hint(line: str, hint: str | None) -> None:
    """The hint has a line of its own, under what it is about."""
    text(line)
    if hint:
        click.echo(f"  {one_line(hint)}")


def outcome_line(outcome: Outcome) -> str:
    """Such as: prune: success in 0.81 s, fetched 12, next run 2026-12-24 18:00:00 UTC."""
    if outcome.skipped is not None:
        return f"{outcome.function}: skipped, {outcome.skipped}{_until(outcome)}"
    counts = [f"{name} {count}" for name, count in outcome.counts._asdict().items() if count is not None]
    then = [f"next run {at(outcome.next_run_at)}"] if outcome.next_run_at else []
    how = outcome.failed or outcome.status
    line = ", ".join([f"{outcome.function}: {how} in {outcome.duration_ms / 1000:.2f} s", *counts, *then])
    return f"{line}: {without_status(how, outcome.error)}" if outcome.error else line


def _until(outcome: Outcome) -> str:
    if outcome.skipped is SkipReason.LOCKED and outcome.locked_until:
        return f" until {at(outcome.locked_until)} at most"
    if outcome.skipped in (SkipReason.NOT_DUE, SkipReason.BREAKER_OPEN) and outcome.next_run_at:
        return f" until {at(outcome.next_run_at)}; --force runs it now"
    return ""


def spawned(command: str, document: dict[str, Any], *, in_json: bool) -> None:
    """For a process that a run has started: nothing is done, and that is said."""
    answer(document, f"{command}: skipped, {SkipReason.SPAWNED}: {spawn_guard.HINT}", in_json=in_json)


def configure_logs(settings: Settings, *, quiet: Collection[str] = ()) -> None:
    """For verbs that say themselves what they did: the log has what went wrong, and more only when asked for. Quiet
    are the actions of errors that such a verb says, too."""
    asked = bool(os.environ.get("CRONLEASE_LOG_LEVEL"))
    level = settings.log_level if asked else "WARNING"
    logs.configure(level, cast("TextIO", _StandardError()), tracebacks=shows_where())
    for handler in logs.logger.handlers:
        if isinstance(handler, logs.OurHandler) and not asked:
            handler.addFilter(partial(_is_news, quiet))


def shows_where() -> bool:
    """Whether the log says where an error came from: not to a person who has not asked."""
    ctx = click.get_current_context(silent=True)
    return ctx is None or bool(ctx.find_root().params.get("debug")) or not sys.stderr.isatty()


def _is_news(quiet: Collection[str], record: logging.LogRecord) -> bool:
    """Not what the verb says itself; why a schedule could not be read it does not."""
    action = getattr(record, "cronlease_fields", {}).get("action")
    return action not in quiet and (record.levelno >= logging.ERROR or action not in _SAID_BY_VERBS)


def announce_stop(settings: Settings) -> None:
    """For a person who has pressed Ctrl-C and waits."""
    if sys.stderr.isatty():
        most = f"up to {settings.drain_seconds:g} s for the run in progress"
        # Not by click, which would write past the bar.
        sys.stderr.write(f"Told to stop: {most}; Ctrl-C once more does not wait for it.\n")


class _StandardError:
    """Whatever it is at the time: while a bar is shown, lines are written above it."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()

    def isatty(self) -> bool:
        return sys.stderr.isatty()


def plain(value: object) -> str:
    """As a line shows it: JSON for what has parts, else its text."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | bool) else str(value)


def _written(value: object) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
