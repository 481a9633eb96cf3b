"""`cronlease schedule create`: an action under a name of its own, once or with a cadence."""

from contextlib import closing
from typing import Any, cast

import click

from cronlease.cadence import Cadence
from cronlease.cli import options, output, rows
from cronlease.cli.source import Source, load_jobs_or_warn
from cronlease.cli.toolbox import Toolbox
from cronlease.db.ask import ask_sync
from cronlease.db.conninfo import SyncConnection, connect_sync
from cronlease.db.migration.migrate import create_if_absent, has_schema
from cronlease.db.migration.packages import of_actions
from cronlease.db.plans import plan_refresh
from cronlease.db.schedule import When, every_text, schedule_action
from cronlease.db.schema import schema
from cronlease.errors import AlreadyThere, SchemaMissing
from cronlease.explain.rows import Details


def _cadence(_ctx: click.Context, _: click.Parameter, text: str | None) -> str | None:
    try:
        return None if text is None else every_text(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("create")
@options.new_name
@click.option("--action", required=True, callback=options.filled, help="The registered function that it runs.")
@options.length("--in", "delay", text="First due after this time; by default immediately.")
@options.moment("--at", text="First due at this time, such as 2026-12-24T18:00Z.")
@click.option(
    "--every",
    metavar="CADENCE",
    callback=_cadence,
    help="A band such as 10m..15m from the end of each run, or a beat such as 6h; by default it runs once.",
)
@options.cron
@options.time_zone
@click.option("--missed", type=click.Choice(("once", "skip")), help="Run the latest missed slot once, or skip it.")
@options.length("--late", text="With --missed skip: how late a slot may still be run.")
@click.option("--attempts", type=click.IntRange(1, 1000), help="How many runs a slot gets, the first included.")
@click.option(
    "--pause-after", type=click.IntRange(1, 1000), help="After this many failed runs in a row, only a probe runs."
)
@options.length("--probe", text="With --pause-after: how long until the probe; by default 6h.")
@options.length("--late-alert", text="How late it may be before an alert; by default twice its interval.")
@options.args
@click.option("--replace", is_flag=True, help="Replace the schedule of that name.")
@options.source
@options.as_json
@click.pass_obj
def create_command(toolbox: Toolbox, /, name: str, action: str, source: Source, as_json: bool, **given: Any) -> None:
    """Schedule an action under the name NAME, once or with a cadence."""
    when = _when(**given)
    _warn_of_unknown(action, source)
    may_migrate = toolbox.settings().migrate == "auto"
    with toolbox.database_url() as url:
        try:
            created = _create(url, name, action, when)
        except SchemaMissing:
            if not may_migrate:
                raise
            _refuse_an_unknown_schema(url)
            create_if_absent(url, packages=of_actions([action]))
            created = _create(url, name, action, when)
    document = {"function": name, "next_run_at": created.schedule.next_run_at}
    output.answer(
        document, f'"{name}" is scheduled, {output.next_run(created.schedule, created.now)}', in_json=as_json
    )


def _refuse_an_unknown_schema(url: str) -> None:
    """Its name may be mistyped, so only migrate makes a schema."""
    with closing(connect_sync(url)) as conn:
        if not has_schema(conn):
            raise click.ClickException(
                f"the database has no schema {schema()}: correct CRONLEASE_SCHEMA, or make it with"
                " `cronlease migrate`"
            )


def _when(**given: Any) -> When:
    if given["delay"] is not None and given["at"] is not None:
        raise click.UsageError("say when either with --in or with --at, not with both")
    return cast("When", {name: value for name, value in given.items() if value is not None})


def _create(url: str, name: str, action: str, when: When) -> Details:
    with closing(connect_sync(url)) as conn:
        try:
            schedule_action(conn, name, action, **when)
            _plan(conn, rows.read_details(conn, name))
        except AlreadyThere:
            raise click.ClickException(
                f'there is already a schedule named "{name}": --replace puts this one in its place'
            ) from None
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        return rows.read_details(conn, name)


def _plan(conn: SyncConnection, details: Details) -> None:
    """Computes the first slot of a cron, which the database cannot."""
    row = details.schedule
    if row.cron is not None:
        cadence = Cadence.of_cron(row.cron, row.time_zone)
        slot = cadence.slots(details.now).after(details.now)
        late = cadence.late_after(slot)
        # The text as SQL writes it.
        text = f"{row.cron} {row.time_zone or 'UTC'}"
        plan = plan_refresh(row.function_name, row.planned_from, row.next_run_at, text, slot_at=slot, late_after=late)
        ask_sync(conn, plan)


def _warn_of_unknown(action: str, source: Source) -> None:
    """Not an error: another deployment may have it."""
    known = load_jobs_or_warn(source)
    if known is not None and action not in known:
        sentence = f'{source.name} declares no action "{action}": the schedule waits for a deployment that does'
        output.text(f"Warning: {sentence}", err=True)
