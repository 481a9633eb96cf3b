"""`cronlease runs`: the history."""

from datetime import datetime, timedelta
from typing import Any

import click

from cronlease.cli import options, output, rows
from cronlease.cli.toolbox import Toolbox
from cronlease.db.questions import Questions
from cronlease.explain.format import at, took, without_status
from cronlease.outcome import Status

_ask = Questions(__file__)
_STATUSES = ("running", *(status.value for status in Status))
_HEADING = ("started", "name", "status", "trigger", "took", "did", "error")
# Without `unchanged`, which says least.
_SIGNS = {"fetched": "", "inserted": "+", "updated": "~", "closed": "-"}


@click.command("runs")
@click.argument("name", required=False, callback=options.text)
@click.option(
    "--limit", type=click.IntRange(1, 1_000_000), default=20, show_default=True, help="Show at most this many."
)
@click.option("--status", type=click.Choice(_STATUSES), help="Only those with this status.")
@options.length("--since", "within", text="Only those that started within this time.")
@options.as_json
@click.pass_obj
def runs_command(
    toolbox: Toolbox, name: str | None, limit: int, status: str | None, within: timedelta | None, as_json: bool
) -> None:
    """Show the history, of NAME or of all: the newest runs first.

    The column "did" shows how many items were fetched, and of them +new, ~changed and -closed ones.
    """
    with toolbox.connection() as conn:
        runs: list[dict[str, Any]] = _ask(conn, "list_runs", name=name, limit=limit, status=status, within=within)
        if not runs and name is not None:
            # A deleted schedule keeps its history; a name without history may be mistyped.
            with rows.explaining_unknown(conn, name):
                rows.read_details(conn, name, runs=0)
    if as_json:
        output.as_json(runs)
    elif not runs:
        click.echo("There are no such runs." if status or within else "There are no runs yet.")
    else:
        cells = [_cells(run) for run in runs]
        output.table(_HEADING, cells, limit, cut=("name", "error"), spare=("trigger", "did"))


def _cells(run: dict[str, Any]) -> tuple[str, ...]:
    seconds = run["seconds"]
    return (
        at(datetime.fromisoformat(run["started_at"])),
        run["function_name"],
        run["status"],
        run["trigger"],
        "" if seconds is None else took(seconds),
        " ".join(f"{sign}{run[count]}" for count, sign in _SIGNS.items() if run[count] is not None),
        without_status(run["status"], run["error"]),
    )
