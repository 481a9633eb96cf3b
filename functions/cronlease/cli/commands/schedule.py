"""`cronlease schedule ...`: what a person does to schedules."""

from contextlib import suppress
from uuid import UUID

import click

from cronlease.cli import options, output, rows
from cronlease.cli.commands.create import create_command
from cronlease.cli.commands.run import run_command
from cronlease.cli.table import lines, one_line
from cronlease.cli.toolbox import Toolbox
from cronlease.db.ask import ask_sync
from cronlease.db.operations import delete_refresh, pause_refresh, resume_refresh, unlock_refresh
from cronlease.errors import Contended
from cronlease.explain import plan
from cronlease.explain.backends import blocking_backends, description, how_to_end
from cronlease.explain.format import at, without_status
from cronlease.explain.rows import PastRun, Schedule
from cronlease.explain.sentences import holder
from cronlease.process.person import actor

_STATES = ("pending", "dispatching", "completed", "paused", "breaker_open", "late", "stale")


@click.group("schedule")
def schedule_command() -> None:
    """Create, show and change schedules."""


schedule_command.add_command(create_command)
schedule_command.add_command(run_command)


@schedule_command.command("list")
@click.option("--state", type=click.Choice(_STATES), help="Only those in this state.")
@click.option(
    "--limit", type=click.IntRange(1, 1_000_000), default=50, show_default=True, help="Show at most this many."
)
@options.as_json
@click.pass_obj
def list_command(toolbox: Toolbox, state: str | None, limit: int, as_json: bool) -> None:
    """Show the schedules: due ones first, completed ones last."""
    with toolbox.connection() as conn:
        now, schedules, as_written = rows.list_schedules(conn, state, limit)
    if as_json:
        output.as_json(as_written)
    elif not schedules:
        click.echo("There are no such schedules." if state else "There are no schedules yet.")
    else:
        heading = ("name", "state", "action", "every", "runs", "last", "next run")
        cells = [_cells(row, output.next_run(row, now)) for row in schedules]
        output.table(heading, cells, limit, cut=("name", "action", "next run"), spare=("runs",))


def _cells(row: Schedule, then: str) -> tuple[str, ...]:
    every = "once" if row.once else row.every or row.cron or row.planned_from or ""
    return (row.function_name, row.state, row.action, every, str(row.run_count), row.last_status or "", then)


@schedule_command.command("show")
@options.name
@options.as_json
@click.pass_obj
def show_command(toolbox: Toolbox, name: str, as_json: bool) -> None:
    """Show everything known about NAME, and its newest runs."""
    with toolbox.connection() as conn, rows.explaining_unknown(conn, name):
        details = rows.read_details(conn, name, runs=10)
    if as_json:
        output.as_json(details.as_json)
        return
    for field, value in details.schedule._asdict().items():
        if value is not None and field not in ("every_is_readable", "args_are_readable", "health"):
            output.text(f"{field:<20} {at(value) if hasattr(value, 'astimezone') else output.plain(value)}")
    for sentence in plan.sentences(details.schedule, details.now):
        output.text(sentence)
    if details.runs:
        heading = ("run", "status", "trigger", "started", "took", "error")
        cells = [_past(run) for run in details.runs]
        for line in ["", *lines(heading, cells, cut=("run", "error"), spare=("trigger",))]:
            click.echo(line)


def _past(run: PastRun) -> tuple[str, ...]:
    took = f"{(run.finished_at - run.started_at).total_seconds():.2f} s" if run.finished_at else ""
    return (run.request_id, run.status, run.trigger, at(run.started_at), took, without_status(run.status, run.error))


@schedule_command.command("pause")
@options.name
@options.reason
@options.as_json
@click.pass_obj
def pause_command(toolbox: Toolbox, name: str, reason: str | None, as_json: bool) -> None:
    """Keep NAME from running until it is resumed.

    A run in progress may finish.
    """
    with toolbox.connection() as conn, rows.explaining_unknown(conn, name):
        changed = ask_sync(conn, pause_refresh(name, reason, actor=actor()))
    sentence = f'"{name}" is paused' if changed else f'"{name}" was paused already'
    if reason is not None and not changed:
        sentence += f", and the reason is now: {reason}"
    output.answer({"function": name, "paused": True, "changed": changed}, sentence, in_json=as_json)


@schedule_command.command("resume")
@options.name
@options.as_json
@click.pass_obj
def resume_command(toolbox: Toolbox, name: str, as_json: bool) -> None:
    """Let NAME run again: ends its pause, and closes its breaker."""
    with toolbox.connection() as conn, rows.explaining_unknown(conn, name):
        changed = ask_sync(conn, resume_refresh(name, actor=actor()))
        details = rows.read_details(conn, name)
    sentence = f'"{name}" is resumed' if changed else f'"{name}" was neither paused nor stopped by its breaker'
    sentence += f", {output.next_run(details.schedule, details.now)}"
    output.answer({"function": name, "paused": False, "changed": changed}, sentence, in_json=as_json)


@schedule_command.command("delete")
@options.name
@options.yes
@options.as_json
@click.pass_obj
def delete_command(toolbox: Toolbox, name: str, yes: bool, as_json: bool) -> None:
    """Delete NAME unless it is running; its history stays."""
    with toolbox.connection() as conn, rows.explaining_unknown(conn, name):
        if not yes:
            row = rows.read_details(conn, name).schedule
            options.confirm(one_line(f'Delete "{name}", {row.state}, of the action "{row.action}"?'))
        ask_sync(conn, delete_refresh(name, actor=actor()))
    output.answer({"function": name, "deleted": True}, f'"{name}" is deleted, its history stays', in_json=as_json)


@schedule_command.command("unlock")
@options.name
@options.reason
@options.yes
@options.as_json
@click.pass_obj
def unlock_command(toolbox: Toolbox, name: str, reason: str | None, yes: bool, as_json: bool) -> None:
    """Break the lease of NAME, after showing who holds it.

    The run that held it can never write again, and the next one may start.
    """
    with toolbox.connection() as conn, rows.explaining_unknown(conn, name):
        details = rows.read_details(conn, name)
        holding = holder(details)
        if holding is None:
            document = {"function": name, "unlocked": False, "locked_by": None}
            output.answer(document, f'"{name}" is not locked', in_json=as_json)
            return
        if not yes:
            options.confirm(f"{one_line(holding)}\nBreak this lease?")
        held_by = _request_id(details.schedule.locked_by)
        try:
            lock = ask_sync(conn, unlock_refresh(name, held_by, actor=actor(), reason=reason))
        except Contended:
            for each in blocking_backends(conn, name):
                why = f'the row of "{name}" is locked by {description(each)}; {how_to_end(each)}'
                raise click.ClickException(why) from None
            raise
    if not lock.unlocked:
        raise click.ClickException(_too_late(name, lock.locked_by))
    sentence = f'"{name}" is unlocked: request {lock.locked_by} can never write again'
    output.answer({"function": name, "unlocked": True, "locked_by": lock.locked_by}, sentence, in_json=as_json)


def _request_id(holding: str | None) -> UUID | None:
    """The holder that was shown: a lease that somebody else has taken since must not be broken."""
    with suppress(ValueError):
        return UUID(holding or "")
    return None


def _too_late(name: str, locked_by: str | None) -> str:
    if locked_by is None:
        return f'"{name}" is free already: its run has ended'
    return f'request {locked_by} holds "{name}" by now: it was left alone, check again before you break its lease'
