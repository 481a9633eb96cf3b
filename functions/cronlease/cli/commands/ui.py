"""`cronlease ui`: the status page of a database, on loopback."""

from typing import TYPE_CHECKING

import click

from cronlease.cli.commands.serve import address_of, listen, server_of
from cronlease.observe import logs

if TYPE_CHECKING:
    from cronlease.cli.main import Toolbox


@click.command("ui")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8081,
    show_default=True,
    help="On 127.0.0.1; 0 takes a free one.",
)
@click.pass_obj
def ui_command(toolbox: "Toolbox", port: int) -> None:
    """Serve the status page on this machine.

    For whoever can reach the database and not the service: the same page, whose forms pause, resume and unlock.
    It has no functions, so it runs nothing. Ctrl-C ends it.
    """
    # Only loopback callers reach it, and they may do everything.
    settings = toolbox.settings()._replace(auth=None, on_platform=False, log_level="WARNING")
    logs.configure(settings.log_level)
    place = listen("127.0.0.1", port, "pass --port N")
    with toolbox.troubles():
        server = server_of(settings)
        click.echo(f"The status page is at {address_of(place)}/status; Ctrl-C ends it.")
        server.run(sockets=[place])
