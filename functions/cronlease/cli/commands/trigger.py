"""`cronlease trigger`: one hit at a function, in this process or over HTTP."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from cronlease.cli import options, output
from cronlease.cli.commands.run import run_here
from cronlease.cli.progress import bar
from cronlease.cli.source import Source, chosen_job, load_jobs, refuse_to_make_its_tables
from cronlease.cli.toolbox import Toolbox
from cronlease.job import Hit
from cronlease.process import spawn_guard


@click.command("trigger")
@click.option("--url", metavar="URL", help="POST to the function there, instead of running it here.")
@options.force
@options.args
@options.source
@options.target
@click.option("--token", help="For --url, a bearer token; CRONLEASE_TOKEN keeps it off the command line.")
@click.option("--token-file", type=click.Path(path_type=Path), help="For --url, a file with the token in it.")
@click.option("--identity", is_flag=True, help="For --url, the identity token of whoever is signed in to gcloud.")
@options.length("--timeout", default="30m", text="For --url, how long the answer may take.")
@options.as_json
@click.pass_obj
def trigger_command(
    toolbox: Toolbox, /, url: str | None, force: bool, args: dict[str, Any], as_json: bool, **given: Any
) -> None:
    """Hit a function once: it runs if it is due and free.

    By default it runs here, and like any first hit creates what the database lacks. With --url it is a hit over HTTP,
    as a scheduler sends it. The exit status is 0 when it ran or was skipped, 1 when the run failed or was refused, or
    when the schedule or the function could not be reached.
    """
    if spawn_guard.is_spawned():
        output.spawned(given["target"] or "trigger", in_json=as_json)
    elif url is not None:
        for name in ("target", "source"):
            if options.given_by_hand(name):
                raise click.UsageError(f"--{name} is for a function here: with --url the address says which to hit")
        _over_http(url, {"force": force, "args": args}, as_json, **given)
    elif given["token"] or given["token_file"] or given["identity"]:
        raise click.UsageError("a token is for --url: a run here needs none")
    else:
        _here(toolbox, Hit(force=force, args=args), given["source"], given["target"], as_json)


def _here(toolbox: Toolbox, hit: Hit, source: Source, target: str | None, as_json: bool) -> None:
    settings = toolbox.settings()
    output.configure_logs(settings)
    jobs = load_jobs(source, announce=not as_json)
    job = chosen_job(jobs, source, target)
    with toolbox.database_url() as url:
        refuse_to_make_its_tables(source, jobs, url)
        run_here(job, hit, url, settings, job.name, jobs, in_json=as_json)


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
    from cronlease.cli.post import bearer, post

    if sum(map(bool, (token, token_file, identity))) > 1:
        raise click.UsageError("--token, --token-file and --identity exclude each other")
    credential = bearer(token, token_file, identity=identity)
    with bar("waiting for the answer"):
        answer = post(url, body, credential, timeout)
    if as_json:
        output.as_json(answer.body)
    else:
        output.print_with_hint(answer.line, output.hint_of(answer.body))
    if not answer.is_fine:
        raise click.exceptions.Exit(1)
