"""`cronlease ui`: the status page of a database, on loopback."""

import click

from cronlease.cli.commands.serve import address_of, listen, server_of
from cronlease.cli.table import one_line
from cronlease.cli.toolbox import Toolbox
from cronlease.db.conninfo import advised, connect_sync
from cronlease.errors import DatabaseTrouble
from cronlease.observe import logs
from cronlease.observe.redact import redact


@click.command("ui")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8081,
    show_default=True,
    help="The port on 127.0.0.1; 0 takes a free one.",
)
@click.pass_obj
def ui_command(toolbox: Toolbox, port: int) -> None:
    """Serve the status page on this machine.

    For whoever can reach the database but not the service. It is the same page, with its forms to pause, resume and
    unlock. It has no functions, so it runs nothing. Ctrl-C ends it.
    """
    # Only loopback callers can reach it, and they may do everything.
    settings = toolbox.settings()._replace(auth=None, on_platform=False, log_level="WARNING")
    logs.configure(settings.log_level)
    place = listen("127.0.0.1", port, "pass --port N")
    with toolbox.troubles():
        server = server_of(settings)
        if settings.has_database:
            _warn_if_down(settings.database_url or "")
        click.echo(f"The status page is at {address_of(place)}/status; Ctrl-C ends it.")
        server.run(sockets=[place])


def _warn_if_down(url: str) -> None:
    """The page starts nevertheless: the database may come back."""
    try:
        connect_sync(url).close()
    except DatabaseTrouble as trouble:
        click.echo(f"Warning: {one_line(redact(advised(trouble)))}", err=True)
