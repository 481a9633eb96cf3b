"""`cronlease explain NAME`: why it did or did not run, and when it will, in plain sentences."""

import click

from cronlease.cli import options, output, rows
from cronlease.cli.source import Source, load_jobs_or_warn
from cronlease.cli.toolbox import Toolbox
from cronlease.explain.sentences import sentences


@click.command("explain")
@options.name
@options.source
@options.as_json
@click.pass_obj
def explain_command(toolbox: Toolbox, name: str, source: Source, as_json: bool) -> None:
    """Say why NAME did or did not run, and when it will.

    It also says whether the source declares its action, unless the source is the shipped one.
    """
    # The shipped source says nothing about the deployment that owns this schedule.
    known = None if source.is_shipped else load_jobs_or_warn(source, announce=not as_json)
    if source.is_shipped and not as_json:
        source.announce()
    with toolbox.connection() as conn, rows.explaining_unknown(conn, name):
        details = rows.read_details(conn, name)
    explanation = sentences(details, known, source.name)
    if as_json:
        output.as_json({"function": name, "sentences": explanation, **details.as_json})
    else:
        for sentence in explanation:
            output.text(sentence)
