"""`cronlease recover`: clears the leases that dead runs have left."""

from datetime import timedelta

import click

from cronlease.cli import options, output
from cronlease.cli.toolbox import Toolbox
from cronlease.db.ask import ask_sync
from cronlease.db.operations import recover_stale_dispatches
from cronlease.explain.backends import blocking_backends, description, how_to_end
from cronlease.explain.format import counted


@click.command("recover")
@options.length("--older-than", default="5m", text="Only leases of runs that started at least this long ago.")
@click.option("--all", "every_age", is_flag=True, help="Leases of runs of any age.")
@options.as_json
@click.pass_obj
def recover_command(toolbox: Toolbox, older_than: timedelta, every_age: bool, as_json: bool) -> None:
    """Clear the leases of runs that died.

    Also closes runs that were left open. It never touches a live run.
    """
    if every_age:
        if options.given_by_hand("older_than"):
            raise click.UsageError("--all and --older-than exclude each other")
        older_than = timedelta(0)
    with toolbox.connection() as conn:
        cleared = ask_sync(conn, recover_stale_dispatches(older_than))
        left = [each for each in blocking_backends(conn) if each.holds_row]
    if cleared:
        sentence = f"{counted(cleared, 'dead run')} closed"
    elif left:
        sentence = "no lease could be cleared"
    else:
        of_that_age, more = (" of that age", ": --all covers those of any age") if older_than else ("", "")
        sentence = f"no lease{of_that_age} has run out{more}"
    document = {"recovered": cleared, "left": [each.function_name for each in left]}
    output.answer(document, sentence, in_json=as_json)
    for each in left:
        why = f'a run of "{each.function_name}" still has its row locked in {description(each)}'
        output.text(f"{why}; {how_to_end(each)}.", err=True)
