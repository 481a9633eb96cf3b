"""`cronlease recover`: clears the leases that dead runs have left."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from cronlease.cli import options, output
from cronlease.cli.table import one_line
from cronlease.db.ask import ask_sync
from cronlease.db.functions import recover_stale_dispatches
from cronlease.explain.backends import blocking_backends, description, how_to_end
from cronlease.explain.format import counted

if TYPE_CHECKING:
    from cronlease.cli.main import Toolbox


@click.command("recover")
@options.length("--older-than", default="5m", text="Only those of runs that started at least so long ago.")
@click.option("--all", "every_age", is_flag=True, help="Also those that have run out just now.")
@options.as_json
@click.pass_obj
def recover_command(toolbox: "Toolbox", older_than: timedelta, every_age: bool, as_json: bool) -> None:
    """Clear the leases of runs that died, and close runs that were left open; never a live one."""
    if every_age:
        given = click.get_current_context().get_parameter_source("older_than")
        if given is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError("--all and --older-than exclude each other")
        older_than = timedelta(0)
    with toolbox.connection() as conn:
        cleared = ask_sync(conn, recover_stale_dispatches(older_than))
        left = [each for each in blocking_backends(conn) if each.holds_row]
    none = (
        "no lease of that age has run out: --all looks at those of any age" if older_than else "no lease has run out"
    )
    if left:
        none = "no lease could be cleared"
    sentence = f"{counted(cleared, 'dead run')} closed" if cleared else none
    document = {"recovered": cleared, "left": [each.function_name for each in left]}
    output.answer(document, sentence, in_json=as_json)
    for each in left:
        why = f'a run of "{each.function_name}" still has its row locked in {description(each)}'
        click.echo(one_line(f"{why}; {how_to_end(each)}."), err=True)
