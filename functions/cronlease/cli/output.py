"""What the verbs print: a line per outcome for a person, JSON for a program."""

import json
import logging
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO, cast
from uuid import uuid4

import click

from cronlease.cli.table import lines, one_line
from cronlease.explain.format import at, how_to_resume, relative, without_status
from cronlease.explain.rows import Schedule
from cronlease.observe import logs
from cronlease.outcome import Counts, FailReason, Outcome, SkipReason
from cronlease.process import spawn_guard
from cronlease.settings import Settings

WHERE = "`cronlease --debug ...` shows where"
_PRINTED_BY_VERBS = {"run_skipped", "run_interrupted", "run_lease_lost"}


def as_json(document: Any) -> None:
    click.echo(json.dumps(document, default=_written, ensure_ascii=False))


def text(line: str, *, err: bool = False) -> None:
    """Prints one line, without anything that could move the cursor."""
    click.echo(one_line(line), err=err)


def answer(document: dict[str, Any], sentence: str, *, in_json: bool) -> None:
    """Prints a verb's answer in the form asked for."""
    if in_json:
        as_json(document)
    else:
        text(sentence)


def table(
    heading: Sequence[str], rows: Sequence[Sequence[str]], limit: int, *, cut: Collection[str], spare: Sequence[str]
) -> None:
    """Prints a list of at most `limit` rows, and whether there may be more."""
    for line in lines(heading, rows, cut=cut, spare=spare):
        click.echo(line)
    if len(rows) == limit:
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
    """Prints how a run here ended. Of many, only the last line says how to see more."""
    body = outcome.as_json()
    if in_json:
        as_json(body)
    elif outcome.failed is FailReason.FAILED and not shows_where():
        print_with_hint(outcome_line(body), None if one_of_many else WHERE)
    else:
        print_with_hint(outcome_line(body), hint_of(body))


def hint_of(answer: Mapping[str, Any]) -> str | None:
    """What to do about the answer to a hit, which is not trusted. How to force a run is on the line itself."""
    if answer.get("reason") in (SkipReason.PAUSED, SkipReason.BREAKER_OPEN):
        return how_to_resume(str(answer.get("function")))
    hint = answer.get("hint")
    return hint if isinstance(hint, str) and answer.get("reason") != SkipReason.NOT_DUE else None


def print_with_hint(line: str, hint: str | None) -> None:
    """The hint has a line of its own, under the line it belongs to."""
    text(line)
    if hint:
        text(f"  {hint}")


def outcome_line(answer: Mapping[str, Any], http_status: int | None = None) -> str:
    """Such as: prune: success in 0.81 s, fetched 12, next run 2026-12-24 18:00:00 UTC. The answer to a hit over HTTP
    is not trusted, and comes with its status."""
    who, reason, ms = answer.get("function", "refused"), answer.get("reason"), answer.get("duration_ms")
    if answer.get("skipped"):
        return f"{who}: skipped, {reason}{_until(answer, here=http_status is None)}"
    how = answer.get("status") if answer["ok"] else reason
    if http_status is not None and not answer["ok"]:
        return f"{who}: {how} ({http_status}): {without_status(how, str(answer.get('error')))}"
    took = f" in {ms / 1000:.2f} s" if isinstance(ms, int) else ""
    counts = [f"{name} {answer[name]}" for name in Counts._fields if answer.get(name) is not None]
    then = _moment(answer.get("next_run_at"))
    line = ", ".join([f"{who}: {how}{took}", *counts, *([f"next run {then}"] if then else [])])
    return f"{line}: {without_status(how, str(answer['error']))}" if answer.get("error") else line


def _until(answer: Mapping[str, Any], *, here: bool) -> str:
    if locked_until := _moment(answer.get("locked_until")):
        return f" until {locked_until} at most"
    if next_run_at := _moment(answer.get("next_run_at")):
        return f" until {next_run_at}{'; --force runs it now' if here else ''}"
    return ""


def _moment(text: object) -> str | None:
    try:
        return at(datetime.fromisoformat(str(text))) if text else None
    except ValueError:
        return None


def spawned(command: str, document: dict[str, Any] | None = None, *, in_json: bool) -> None:
    """Prints that a process that a run has started does nothing. The default document is that of a skipped run."""
    if document is None:
        skip = Outcome(command, uuid4(), skipped=SkipReason.SPAWNED, hint=spawn_guard.HINT)
        document = skip.as_json()
    answer(document, f"{command}: skipped, {SkipReason.SPAWNED}: {spawn_guard.HINT}", in_json=in_json)


def configure_logs(settings: Settings, *, quiet: Collection[str] = ()) -> None:
    """For verbs that print what they did: the log has only what went wrong, unless CRONLEASE_LOG_LEVEL asks for more.
    The verb also prints the errors whose actions are in `quiet`."""
    asked = bool(os.environ.get("CRONLEASE_LOG_LEVEL"))
    level = settings.log_level if asked else "WARNING"
    logs.configure(level, cast("TextIO", _StandardError()), tracebacks=shows_where())
    for handler in logs.logger.handlers:
        if isinstance(handler, logs.OurHandler) and not asked:
            handler.addFilter(partial(_is_not_printed, quiet))


def shows_where() -> bool:
    """Whether the log shows where an error came from: for a person, only with --debug."""
    ctx = click.get_current_context(silent=True)
    return ctx is None or bool(ctx.find_root().params.get("debug")) or not sys.stderr.isatty()


def _is_not_printed(quiet: Collection[str], record: logging.LogRecord) -> bool:
    """Whether the verb leaves it to the log. Why a schedule could not be read is always left to the log."""
    action = getattr(record, "cronlease_fields", {}).get("action")
    return action not in quiet and (record.levelno >= logging.ERROR or action not in _PRINTED_BY_VERBS)


def announce_stop(settings: Settings) -> None:
    """For a person who has pressed Ctrl-C and waits."""
    if sys.stderr.isatty():
        most = f"waiting up to {settings.drain_seconds:g} s for the run in progress"
        # Not through click, which would write past the bar.
        sys.stderr.write(f"Stopping: {most}; press Ctrl-C again to stop now.\n")


class _StandardError:
    """Looks up sys.stderr for each line: a bar replaces it while it is shown, so that lines appear above the bar."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()

    def isatty(self) -> bool:
        return sys.stderr.isatty()


def plain(value: object) -> str:
    """A value on a line: JSON if it is an object or a bool, else its text."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | bool) else str(value)


def _written(value: object) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
