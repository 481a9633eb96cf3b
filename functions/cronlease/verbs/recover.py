"""`cronlease recover`: clears the leases that dead runs have left."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from cronlease.database import ask_plain
from cronlease.schedule import recover_stale_dispatches
from cronlease.verbs import options, show
from cronlease.verbs.words import counted

if TYPE_CHECKING:
    from cronlease.cli import Toolbox


@click.command("recover")
@options.length("--older-than", default="0s", text="Only those of runs that started at least so long ago.")
@options.as_json
@click.pass_obj
def recover_command(toolbox: "Toolbox", older_than: timedelta, as_json: bool) -> None:
    """Clear the leases of runs that died; never a live one."""
    with toolbox.connection() as conn:
        cleared = ask_plain(conn, recover_stale_dispatches(older_than))
    none = "no lease of that age has run out" if older_than else "no lease has run out"
    said = f"{counted(cleared, 'stale lease')} cleared" if cleared else none
    show.say({"recovered": cleared}, said, in_json=as_json)
