"""`cronlease schedule create`: an action under a name of its own, once or with a cadence."""

from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from cronlease.cadence import Every
from cronlease.cli import options, output, rows
from cronlease.cli.source import Source, load_jobs_or_warn
from cronlease.cli.table import one_line
from cronlease.db.conninfo import connect_sync
from cronlease.db.migration.migrate import create_if_absent
from cronlease.db.migration.packages import of_actions
from cronlease.db.schedule import When, schedule_action
from cronlease.errors import AlreadyThere, SchemaMissing

if TYPE_CHECKING:
    from cronlease.cli.main import Toolbox


def _band(_ctx: click.Context, _: click.Parameter, text: str | None) -> str | None:
    try:
        return None if text is None else str(Every.parse(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("create")
@options.new_name
@click.option("--action", required=True, callback=options.filled, help="The registered function that it runs.")
@options.length("--in", "delay", text="First due in so long; by default at once.")
@options.moment("--at", text="First due at that time, such as 2026-12-24T18:00Z.")
@click.option("--every", metavar="BAND", callback=_band, help="Again and again, such as 10m..15m; else once.")
@options.args
@click.option("--replace", is_flag=True, help="Put it in the place of one of that name.")
@options.source
@options.as_json
@click.pass_obj
def create_command(
    toolbox: "Toolbox", /, name: str, action: str, source: Source, as_json: bool, **given: Any
) -> None:
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
            create_if_absent(url, packages=of_actions([action]))
            created = _create(url, name, action, when)
    document = {"function": name, "next_run_at": created.schedule.next_run_at}
    output.answer(
        document, f'"{name}" is scheduled, {output.next_run(created.schedule, created.now)}', in_json=as_json
    )


def _when(
    delay: timedelta | None, at: datetime | None, every: str | None, args: dict[str, Any], replace: bool
) -> When:
    if delay is not None and at is not None:
        raise click.UsageError("say when either with --in or with --at, not with both")
    when: When = {"args": args, "replace": replace}
    if delay is not None:
        when["delay"] = delay
    if at is not None:
        when["at"] = at
    if every is not None:
        when["every"] = every
    return when


def _create(url: str, name: str, action: str, when: When) -> rows.Details:
    with closing(connect_sync(url)) as conn:
        try:
            schedule_action(conn, name, action, **when)
        except AlreadyThere:
            sentence = f'there is already a schedule named "{name}": --replace puts this one in its place'
            raise click.ClickException(one_line(sentence)) from None
        return rows.read_details(conn, name)


def _warn_of_unknown(action: str, source: Source) -> None:
    """Not an error: another deployment may have it."""
    known = load_jobs_or_warn(source)
    if known is not None and action not in known:
        sentence = f'no function of {source.name} is the action "{action}": it waits for a deployment that has one'
        click.echo(f"Warning: {one_line(sentence)}", err=True)
