"""`cronlease trigger`: one hit at a function, in this process or over HTTP."""

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from cronlease.cli import options, output
from cronlease.cli.commands.run import run_here
from cronlease.cli.errors import UsageError
from cronlease.cli.progress import bar
from cronlease.cli.source import Source, chosen_job, load_jobs
from cronlease.db.conninfo import connect_sync
from cronlease.db.migration.packages import MigrationError, of_actions
from cronlease.db.migration.schema_files import has_ledger, packages_in
from cronlease.errors import DatabaseTrouble
from cronlease.job import Hit, Job
from cronlease.outcome import Outcome, SkipReason
from cronlease.process import spawn_guard

if TYPE_CHECKING:
    from cronlease.cli.main import Toolbox


@click.command("trigger")
@click.option("--url", metavar="URL", help="POST to the function there, instead of running it here.")
@click.option("--force", is_flag=True, help="Even if it is not due; never while it runs, is paused or completed.")
@options.args
@options.source
@options.target
@click.option("--token", help="For --url, a bearer token; CRONLEASE_TOKEN keeps it off the command line.")
@click.option("--token-file", type=click.Path(path_type=Path), help="For --url, a file with the token in it.")
@click.option("--identity", is_flag=True, help="For --url, the identity token that gcloud gives this person.")
@options.length("--timeout", default="30m", text="For --url, how long the answer may take.")
@options.as_json
@click.pass_obj
def trigger_command(
    toolbox: "Toolbox", /, url: str | None, force: bool, args: dict[str, Any], as_json: bool, **given: Any
) -> None:
    """Hit a function once: it runs if it is due and free.

    Here, as the first hit would: it creates what is missing in the database. With --url over HTTP, as a scheduler
    would. The exit status is 0 when it ran or was skipped, 1 when the run failed, was refused, or the schedule or the
    function could not be reached.
    """
    if spawn_guard.is_spawned():
        outcome = Outcome(given["target"] or "trigger", uuid4(), skipped=SkipReason.SPAWNED, hint=spawn_guard.HINT)
        output.spawned(outcome.function, outcome.as_json(), in_json=as_json)
    elif url is not None:
        _refuse_what_is_for_here()
        _over_http(url, {"force": force, "args": args}, as_json, **given)
    elif given["token"] or given["token_file"] or given["identity"]:
        raise click.UsageError("a token is for --url: here nobody asks for one")
    else:
        _here(toolbox, Hit(force=force, args=args), given["source"], given["target"], as_json)


def _refuse_what_is_for_here() -> None:
    """Only what was written there: the environment may name a function for other verbs."""
    ctx = click.get_current_context()
    for name in ("target", "source"):
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} is for a function here: with --url the address says which one is hit")


def _here(toolbox: "Toolbox", hit: Hit, source: Source, target: str | None, as_json: bool) -> None:
    settings = toolbox.settings()
    output.configure_logs(settings)
    jobs = load_jobs(source, announce=not as_json)
    job = chosen_job(jobs, source, target)
    with toolbox.database_url() as url:
        if not source.is_meant:
            _refuse_where_it_is_not_at_home(job, source, url)
        run_here(job, hit, url, settings, job.name, jobs, in_json=as_json)


def _refuse_where_it_is_not_at_home(job: Job, source: Source, url: str) -> None:
    """Nobody named the shipped job: in a database of other functions it would make its tables."""
    try:
        with closing(connect_sync(url)) as conn:
            at_home = not has_ledger(conn) or set(of_actions([job.name])) <= packages_in(conn)
    except (DatabaseTrouble, MigrationError):
        # The hit itself says so.
        return
    if not at_home:
        raise UsageError(
            f"there is no ./main.py here, and this database has no tables of {job.name}, the shipped job: pass"
            f" --source FILE for your own function, --source {source.path} to run that one all the same"
        )


def _over_http(
    url: str,
    body: dict[str, Any],
    as_json: bool,
    *,
    token: str | None,
    token_file: Path | None,
    identity: bool,
    timeout: timedelta,
    **_: Any,
) -> None:
    from cronlease.cli.post import answer_line, bearer, post

    if sum(map(bool, (token, token_file, identity))) > 1:
        raise click.UsageError("--token, --token-file and --identity exclude each other")
    credential = bearer(token, token_file, identity=identity)
    with bar("waiting for the answer"):
        answer = post(url, body, credential, timeout)
    if as_json:
        output.as_json(answer.body)
    else:
        output.print_with_hint(answer_line(answer), answer.hint)
    if not answer.is_fine:
        raise click.exceptions.Exit(1)
