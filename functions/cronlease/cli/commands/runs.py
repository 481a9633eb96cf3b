"""`cronlease runs`: the history."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cronlease.cli import options, output, rows
from cronlease.cli.brief import took
from cronlease.cli.format import at, beside
from cronlease.cli.table import lines
from cronlease.db.connection import ask_sync
from cronlease.db.functions import Query
from cronlease.outcome import Status

if TYPE_CHECKING:
    from cronlease.cli.main import Toolbox

_STATUSES = ("running", *(status.value for status in Status))
_HEADING = ("started", "name", "status", "trigger", "took", "did", "error")
# Of what a run reports the unchanged ones say least.
_SIGNS = {"fetched": "", "inserted": "+", "updated": "~", "closed": "-"}


@click.command("runs")
@click.argument("name", required=False, callback=options.text)
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=20, show_default=True, help="At most so many.")
@click.option("--status", type=click.Choice(_STATUSES), help="Only those that ended so.")
@options.length("--since", "within", text="Only those that started within so long.")
@options.as_json
@click.pass_obj
def runs_command(
    toolbox: "Toolbox", name: str | None, limit: int, status: str | None, within: timedelta | None, as_json: bool
) -> None:
    """Show the history, of NAME or of all: the newest runs first.

    Under "did": how many items were fetched, and of them +new, ~changed and -closed ones.
    """
    asked = {"name": name, "limit": limit, "status": status, "within": within}
    with toolbox.connection() as conn:
        found = ask_sync(conn, _query(asked))
        if not found and name is not None:
            # A schedule that was deleted has its history, one that never was has none.
            with rows.known(conn, name):
                rows.look(conn, name, runs=0)
    if as_json:
        output.as_json(found)
    elif not found:
        click.echo("There are no such runs." if status or within else "There are no runs yet.")
    else:
        for line in lines(_HEADING, [_cells(run) for run in found], cut=("name", "error"), spare=("trigger", "did")):
            click.echo(line)
        if len(found) == limit:
            output.may_be_more(limit)


def _cells(run: dict[str, Any]) -> tuple[str, ...]:
    seconds = run["seconds"]
    return (
        at(datetime.fromisoformat(run["started_at"])),
        run["function_name"],
        run["status"],
        run["trigger"],
        "" if seconds is None else took(seconds),
        " ".join(f"{sign}{run[count]}" for count, sign in _SIGNS.items() if run[count] is not None),
        beside(run["status"], run["error"]),
    )


def _query(asked: dict[str, Any]) -> Query[list[dict[str, Any]]]:
    text = Path(__file__).with_name("runs.sql").read_text("utf-8")
    return Query(text, asked, lambda row: list(row[0]))
