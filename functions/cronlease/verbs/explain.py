"""`cronlease explain NAME`: why it did or did not run, and when it will."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cronlease.verbs import options, rows, show
from cronlease.verbs.sentences import explain
from cronlease.verbs.source import load_jobs

if TYPE_CHECKING:
    from cronlease.cli import Toolbox


@click.command("explain")
@options.name
@options.source
@options.as_json
@click.pass_obj
def explain_command(toolbox: "Toolbox", name: str, source: Path | None, as_json: bool) -> None:
    """Say why NAME did or did not run, and when it will.

    With --source it also says whether that file declares its action.
    """
    known = load_jobs(source) if source else None
    with toolbox.connection() as conn, rows.known(conn, name):
        found = rows.look(conn, name)
    said = explain(found, known, str(source))
    if as_json:
        show.as_json({"function": name, "sentences": said, **found.as_json})
    else:
        for sentence in said:
            show.text(sentence)
