"""`cronlease doctor`: checks everything that has to fit, and says how to fix what does not. Changes nothing."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import click

from cronlease.cli import options, output
from cronlease.cli.doctor import database, deployment, environment
from cronlease.cli.doctor.finding import BROKEN, INFO, OK, WARNING, Finding, broken, info, ok, warning
from cronlease.cli.source import NotASource, Source, load_jobs
from cronlease.cli.table import one_line
from cronlease.cli.toolbox import Toolbox
from cronlease.db.conninfo import in_parts
from cronlease.db.migration.packages import installed, of_actions
from cronlease.errors import DatabaseTrouble
from cronlease.explain.format import counted
from cronlease.job import Job
from cronlease.observe.redact import redact
from cronlease.settings import Settings

_REMEDY = re.compile(r"[;:] (?=set |pip install )")
_COLOURS = {OK: "green", INFO: "blue", WARNING: "yellow", BROKEN: "red"}


@click.command("doctor")
@options.source
@click.option("--jobs", type=click.Path(path_type=Path), help="A jobs.json: do its time limits fit each other?")
@options.as_json
@click.pass_obj
def doctor_command(toolbox: Toolbox, source: Source, jobs: Path | None, as_json: bool) -> None:
    """Look for what is wrong, and say how to fix it.

    It checks environment, database, schema, grants, clocks, pooler, leases and the sources file, and changes nothing.
    The exit status is 1 when something is broken, 0 when there are only warnings.
    """
    findings = []
    for finding in _findings(toolbox, source, jobs):
        redacted = finding._replace(said=redact(finding.said), fix=finding.fix and redact(finding.fix))
        findings.append(redacted)
        if not as_json:
            _print(redacted)
    levels = Counter(finding.level for finding in findings)
    if as_json:
        output.as_json({"ok": not levels[BROKEN], "findings": [finding._asdict() for finding in findings]})
    else:
        click.echo(f"{levels[BROKEN]} broken, {counted(levels[WARNING], 'warning')}.")
    if levels[BROKEN]:
        raise click.exceptions.Exit(1)


def _findings(toolbox: Toolbox, source: Source, jobs: Path | None) -> Iterator[Finding]:
    parts = environment.parts()
    yield from environment.variables(parts)
    settings: Settings | None = None
    try:
        settings = toolbox.settings()
    except click.ClickException as error:
        yield broken("settings", error.message, "correct that variable: nothing starts before")
    known, findings = _declared(source)
    yield from findings
    if jobs is not None:
        yield from deployment.check(jobs, known)
    scheduled: set[str] = set()
    if settings is not None:
        yield from environment.time_limits(settings, known)
        packages = installed() if source.is_shipped and source.is_meant else of_actions(known or ())
        yield from _database(toolbox, settings, known, packages, scheduled)
    yield from environment.own_checks(parts, known, scheduled)


def _declared(source: Source) -> tuple[Mapping[str, Job] | None, list[Finding]]:
    """The functions of the file; None for the shipped one, which says nothing about the user's deployment."""
    if source.is_shipped:
        return None, [info("source", source.described)]
    try:
        jobs = load_jobs(source)
        return jobs, [ok("source", f"{source.described} declares {', '.join(jobs)}")]
    except NotASource as error:
        sentence, _, fix = error.message.partition(": ")
        return None, [warning("source", sentence, fix)]
    except click.ClickException as error:
        sentence = error.message
    except SystemExit as error:
        # The decorators refuse to start with one sentence.
        sentence = str(error.code)
    return None, [broken("source", sentence, "correct that file: a deployment of it would not start either")]


def _database(
    toolbox: Toolbox,
    settings: Settings,
    known: Mapping[str, Job] | None,
    packages: Collection[str],
    scheduled: set[str],
) -> Iterator[Finding]:
    """Yields findings one by one, since a database may be slow. Adds the actions that have a schedule to
    `scheduled`."""
    place = "configured" if settings.has_database else "embedded"
    try:
        with toolbox.connection() as conn:
            yield from database.check(conn, settings, known, packages)
            scheduled |= database.scheduled(conn)
    except click.ClickException as error:
        # Most errors of the embedded server end with what to do.
        why, *remedy = _REMEDY.split(error.message, maxsplit=1)
        fix = remedy[0] if remedy else "set DATABASE_URL"
        if isinstance(error.__cause__, DatabaseTrouble):
            why, fix = in_parts(error.__cause__)
        yield broken("connection", f"no connection to the {place} database: {why}", fix)


def _print(finding: Finding) -> None:
    level = click.style(f"{finding.level:<8}", fg=_COLOURS[finding.level])
    click.echo(f"{level} {finding.check:<11} {one_line(finding.said)}")
    if finding.fix:
        click.echo(f"{'':<20} fix: {one_line(finding.fix)}")
