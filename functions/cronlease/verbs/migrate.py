"""`cronlease migrate`: brings the database up to schema/, or says what that would be."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from cronlease.migrate import migrate
from cronlease.verbs import options, show
from cronlease.verbs.drift import Drift, drift

if TYPE_CHECKING:
    from cronlease.cli import Toolbox

_UP_TO_DATE = "The schema is up to date."


@click.command("migrate")
@click.option("--dry-run", is_flag=True, help="Print the SQL that would be applied; write nothing.")
@click.option("--check", is_flag=True, help="Say what is behind; exit status 1 when something is. Write nothing.")
@click.option("--roles", is_flag=True, help="Also make and keep up the roles cronlease_runner and cronlease_reader.")
@options.as_json
@click.pass_obj
def migrate_command(toolbox: "Toolbox", dry_run: bool, check: bool, roles: bool, as_json: bool) -> None:
    """Bring the database up to schema/.

    As the owner of the schema, as often as you like: all of it happens in one transaction, or nothing.
    """
    if dry_run + check + roles > 1:
        raise click.UsageError("--dry-run, --check and --roles exclude each other")
    if dry_run or check:
        with toolbox.connection() as conn:
            found = drift(conn)
        _print_script(found, as_json) if dry_run else _print_check(found, as_json)
        return
    with toolbox.database_url() as url, _progress() as told:
        applied = migrate(url, told, roles=roles)
    if as_json:
        show.as_json({"applied": applied})
        return
    for name in applied:
        click.echo(f"applied {name}")
    click.echo(_UP_TO_DATE)


def _print_script(found: Drift, as_json: bool) -> None:
    script = found.script()
    if as_json:
        show.as_json({**_document(found), "sql": script})
    elif script:
        click.echo(script)
    else:
        click.echo(_UP_TO_DATE, err=True)


def _print_check(found: Drift, as_json: bool) -> None:
    if as_json:
        show.as_json(_document(found))
    else:
        for sentence in found.sentences() or [_UP_TO_DATE]:
            show.text(sentence)
        if found.is_there:
            click.echo(f"Fix: {found.fix}.")
    if found.is_there:
        raise click.exceptions.Exit(1)


def _document(found: Drift) -> dict[str, object]:
    return {
        "up_to_date": not found.is_there,
        "migrations": [file.name for file in found.migrations],
        "newer": found.newer,
        "functions": {each.file.name: each.what for each in found.differences},
    }


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, gone afterwards; elsewhere nothing."""
    shown = sys.stderr.isatty()

    def told(done: int, of: int) -> None:
        if shown:
            width = 30
            filled = width * done // of
            click.echo(f"\r{'█' * filled}{'░' * (width - filled)} {done} of {of}", nl=False, err=True)

    try:
        yield told
    finally:
        if shown:
            click.echo("\r\x1b[K", nl=False, err=True)
