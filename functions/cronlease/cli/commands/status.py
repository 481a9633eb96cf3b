"""`cronlease status`: every schedule at a glance, once or kept on the screen."""

import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta

import click

from cronlease.cli import options, output
from cronlease.cli.status_rows import HEADING, SPARE, Overview, read_overview
from cronlease.cli.toolbox import Toolbox
from cronlease.db.conninfo import SyncConnection, advised, connect_sync, conninfo_of
from cronlease.errors import DatabaseTrouble
from cronlease.observe.redact import redact

_SHORTEST_PAUSE = 0.1


@click.command("status")
@click.option("--watch", is_flag=True, help="Keep it on the screen until Ctrl-C.")
@options.length("--interval", "pause", default="1s", text="How often --watch asks the database.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Show at most this many."
)
@options.as_json
@click.pass_obj
def status_command(toolbox: Toolbox, watch: bool, pause: timedelta, limit: int, as_json: bool) -> None:
    """Show what every schedule is doing.

    A row has its state, who holds the lease and for how long, when it runs next, how long its newest runs took and
    how the last one ended. All times are the database's. --watch goes on through a restart of the database, and
    writes one table after another if its output is not a terminal.
    """
    if not watch:
        with toolbox.connection() as conn:
            _print(read_overview(conn, limit), as_json)
        return
    with toolbox.database_url() as url:
        # A database that is down may come up; an address that cannot be read never will.
        conninfo_of(url)
        _watch_until_stopped(url, limit, pause, as_json)


def _print(overview: Overview, as_json: bool) -> None:
    if as_json:
        output.as_json(overview.as_json)
    elif not overview.schedules:
        click.echo("There are no schedules yet.")
    else:
        cells = [cells for _, cells in overview.cells(overview.now)]
        output.table(HEADING, cells, len(cells) if overview.is_full else 0, cut=("name", "error"), spare=SPARE)


def _watch_until_stopped(url: str, limit: int, pause: timedelta, as_json: bool) -> None:
    # SIGTERM must restore the terminal, as Ctrl-C does.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if sys.stdout.isatty() and not as_json:
            from cronlease.cli.live import View

            view = View()
            with view.live():
                _watch(url, limit, pause, view.show, view.show_trouble)
        else:
            _watch(url, limit, pause, lambda overview: _print(overview, as_json), _print_trouble)
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_trouble(trouble: str) -> None:
    click.echo(f"No answer, trying again: {trouble}", err=True)


def _watch(
    url: str, limit: int, pause: timedelta, show: Callable[[Overview], None], show_trouble: Callable[[str], None]
) -> None:
    """Never returns: a database that goes away is asked until it is back."""
    conn: SyncConnection | None = None
    seconds = max(pause.total_seconds(), _SHORTEST_PAUSE)
    ticks = threading.Event()
    try:
        while True:
            try:
                conn = conn or connect_sync(url)
                show(read_overview(conn, limit))
            except DatabaseTrouble as trouble:
                show_trouble(redact(advised(trouble)))
                if conn is not None:
                    conn.close()
                conn = None
            ticks.wait(seconds)
    finally:
        if conn is not None:
            conn.close()
