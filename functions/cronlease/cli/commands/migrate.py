"""`cronlease migrate`: brings the database up to schema/, or says what that would be."""

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import click

from cronlease.cli import options, output
from cronlease.cli.drift import REPAIR, Drift, drift
from cronlease.cli.progress import bar
from cronlease.cli.roles import READER, RUNNER, missing_grants, sentences
from cronlease.cli.roles import script as roles_script
from cronlease.cli.source import Source, declared_packages
from cronlease.db.conninfo import connect_sync
from cronlease.db.migration.migrate import MigrationError, migrate, rehearse, state
from cronlease.db.migration.schema_files import Packages, wanted
from cronlease.db.schema import in_schema
from cronlease.errors import SchemaMissing

if TYPE_CHECKING:
    from cronlease.cli.main import Toolbox

_UP_TO_DATE = "The schema is up to date."
_WITH_ROLES = "run `cronlease migrate --roles` as the owner of the schema, who may create roles"
_NEXT = f"Then `grant {RUNNER} to LOGIN` for who runs functions, `grant {READER} to LOGIN` for who looks."


@click.command("migrate")
@options.source
@click.option("--dry-run", is_flag=True, help="Print the SQL that would be applied; write nothing.")
@click.option("--check", is_flag=True, help="Say what is behind; exit status 1 when something is. Write nothing.")
@click.option("--roles", is_flag=True, help="Also the roles cronlease_runner and cronlease_reader.")
@options.as_json
@click.pass_obj
def migrate_command(
    toolbox: "Toolbox", source: Source, dry_run: bool, check: bool, roles: bool, as_json: bool
) -> None:
    """Bring the database up to schema/.

    As the owner of the schema, as often as you like: all of it happens in one transaction, or nothing. It makes our
    own tables and those that the functions of main.py need; what is there already is kept up wherever it is run.
    """
    if dry_run and check:
        raise click.UsageError("--dry-run and --check exclude each other")
    packages = declared_packages(source)
    if dry_run or check:
        with toolbox.connection() as conn:
            there, behind = state(conn, packages), drift(conn, packages)
            lacking = missing_grants(conn) if roles else None
            packages = wanted(conn, packages)
        if dry_run and behind.refused:
            raise MigrationError(behind.refused[0])
        if there in ("adoptable", "partial") and not behind.refused:
            # Only a trial shows whether a trigger or a view of somebody else is in the way.
            with toolbox.database_url() as url:
                rehearse(url, packages)
        _print_script(behind, lacking, packages, as_json) if dry_run else _print_check(behind, lacking, as_json)
        return
    with toolbox.database_url() as url:
        before, notes = _roles(url) if roles else {}, list[str]()
        with bar("migrating") as progress:
            try:
                tell = partial(progress.tell, "migrating")
                applied = migrate(url, tell, packages=packages, roles=roles, note=notes.append)
            except MigrationError as error:
                if isinstance(error.__cause__, SchemaMissing):
                    raise MigrationError(f"{error}: {REPAIR}") from error
                raise
    made = {role: "kept up" if lacking is not None else "made" for role, lacking in before.items()}
    if as_json:
        output.as_json(
            {"applied": applied, **({"roles": made} if roles else {}), **({"notes": notes} if notes else {})}
        )
        return
    for name in applied:
        click.echo(f"applied {name}")
    for note in notes:
        output.text(note)
    for role, what in made.items():
        click.echo(f"{what} role {role}")
    if roles:
        click.echo(in_schema(_NEXT))
    click.echo(_UP_TO_DATE)


def _roles(url: str) -> dict[str, list[str] | None]:
    with closing(connect_sync(url)) as conn:
        return missing_grants(conn)


def _print_script(
    behind: Drift, lacking: dict[str, list[str] | None] | None, packages: Packages, as_json: bool
) -> None:
    # All of that file, since migrate would send it all.
    script = behind.script(*([f"-- roles\n{roles_script(packages)}"] if lacking is not None else []))
    if as_json:
        output.as_json({**_document(behind, lacking), "sql": script})
    elif script:
        click.echo(script)
    else:
        click.echo(_UP_TO_DATE, err=True)


def _print_check(behind: Drift, lacking: dict[str, list[str] | None] | None, as_json: bool) -> None:
    wrong = sentences(lacking or {})
    is_behind = behind.is_there or bool(wrong)
    if as_json:
        output.as_json(_document(behind, lacking))
    else:
        for sentence in [*behind.sentences(), *wrong] or [_UP_TO_DATE]:
            output.text(sentence)
        if is_behind:
            click.echo(f"Fix: {_WITH_ROLES if wrong and not behind.newer else behind.fix}.")
    if is_behind:
        raise click.exceptions.Exit(1)


def _document(behind: Drift, lacking: dict[str, list[str] | None] | None) -> dict[str, object]:
    return {
        "up_to_date": not (behind.is_there or sentences(lacking or {})),
        "migrations": [file.name for file in behind.migrations],
        "newer": behind.newer,
        "tables": [each.sentence for each in behind.tables],
        "functions": {each.file.name: each.what for each in behind.differences},
        **({} if lacking is None else {"roles": lacking}),
    }
