"""`cronlease migrate`: brings the database up to date, or says what that would take."""

from contextlib import closing
from functools import partial
from pathlib import Path

import click

from cronlease.cli import options, output
from cronlease.cli.drift import REPAIR, Drift, drift
from cronlease.cli.errors import UsageError
from cronlease.cli.progress import bar
from cronlease.cli.roles import READER, RUNNER, WITH_ROLES, Roles, missing_grants
from cronlease.cli.roles import script as roles_script
from cronlease.cli.source import Declared, Source, declared_packages
from cronlease.cli.toolbox import Toolbox
from cronlease.db.conninfo import connect_sync
from cronlease.db.migration.migrate import migrate, rehearse, state
from cronlease.db.migration.packages import MigrationError
from cronlease.db.migration.schema_files import Packages, wanted
from cronlease.db.schema import in_schema
from cronlease.emulator.setup import SetupError, read, run_text
from cronlease.errors import SchemaMissing

_UP_TO_DATE = "The schema is up to date."
_UNREAD = "only our own tables, and those of jobs the database already has, were checked: correct it, then migrate"
_NEXT = f"Next: `grant {RUNNER} to LOGIN` for whoever runs functions, `grant {READER} to LOGIN` for whoever reads."


@click.command("migrate")
@options.source_of("The main.py whose functions may need tables; by default ./main.py, else only our own are made.")
@click.option("--dry-run", is_flag=True, help="Print the SQL that would be applied; write nothing.")
@click.option(
    "--check", is_flag=True, help="Say what is missing or different; exit status 1 if anything is. Write nothing."
)
@click.option("--roles", is_flag=True, help="Include the roles cronlease_runner and cronlease_reader.")
@click.option("--setup", type=click.Path(path_type=Path), help="Then run this SQL file, such as your schema.sql.")
@options.as_json
@click.pass_obj
def migrate_command(
    toolbox: Toolbox,
    source: Source,
    dry_run: bool,
    check: bool,
    roles: bool,
    setup: Path | None,
    as_json: bool,
) -> None:
    """Create our tables and functions, or bring them up to date.

    Run it as the owner of the schema, as often as you like: everything happens in one transaction, or nothing does.
    It makes our own tables and those that the functions of main.py need, and updates those that are already there.
    The --setup file runs afterwards, in a transaction of its own.
    """
    if dry_run and check:
        raise click.UsageError("--dry-run and --check exclude each other")
    if setup is not None and (dry_run or check):
        raise click.UsageError("--setup runs its file: leave it out where nothing is to be written")
    declared = declared_packages(source, announce=not as_json)
    if dry_run or check:
        _preview(toolbox, declared, roles=roles, script=dry_run, as_json=as_json)
        return
    own = None if setup is None else _read(setup)
    with toolbox.database_url() as url:
        before, notes = _roles(url) if roles else Roles({}), list[str]()
        applied = _migrate(url, declared, notes, roles=roles)
        if own is not None:
            _set_up(url, own, str(setup))
        after = _roles(url) if roles else Roles({})
    made = {role: "made" if lacking is None else "kept up" for role, lacking in before.lacking.items()}
    if as_json:
        more = {"roles": made, "setup": setup and str(setup), "notes": notes}
        output.as_json({"applied": applied, **{name: value for name, value in more.items() if value}})
    else:
        ran = [f"ran {setup}"] if setup else []
        for line in [*(f"applied {name}" for name in applied), *notes, *ran]:
            output.text(line)
        for role, what in made.items():
            output.text(f"{what} role {role}")
    _refuse_what_is_left(after, declared)
    if not as_json:
        click.echo(f"{in_schema(_NEXT)}\n{_UP_TO_DATE}" if roles else _UP_TO_DATE)


def _migrate(url: str, declared: Declared, notes: list[str], *, roles: bool) -> list[str]:
    with bar("migrating") as progress:
        tell = partial(progress.tell, "migrating")
        try:
            return migrate(url, tell, packages=declared.packages, roles=roles, note=notes.append)
        except MigrationError as error:
            if isinstance(error.__cause__, SchemaMissing):
                raise MigrationError(f"{error}: {REPAIR}") from error
            raise


def _refuse_what_is_left(roles: Roles, declared: Declared) -> None:
    """What a migration could not do: grant to a role, or read ./main.py."""
    if declared.unread is not None:
        raise click.ClickException(f"{declared.unread}; {_UNREAD}")
    if roles.sentences:
        raise click.ClickException(f"{'; '.join(roles.sentences)}: {roles.fix}; all else is up to date")


def _preview(toolbox: Toolbox, declared: Declared, *, roles: bool, script: bool, as_json: bool) -> None:
    """What migrate would do, as a script or in sentences."""
    with toolbox.connection() as conn:
        there, behind = state(conn, declared.packages), drift(conn, declared.packages)
        grants = missing_grants(conn) if roles else None
        packages = wanted(conn, declared.packages)
    if script and behind.refused:
        raise MigrationError(behind.refused[0])
    if there in ("adoptable", "partial") and not behind.refused:
        # Only a trial shows whether somebody else's trigger or view is in the way.
        with toolbox.database_url() as url:
            rehearse(url, packages)
    if script:
        _print_script(behind, grants, packages, as_json)
    else:
        _print_check(behind, grants, declared, as_json)
    _refuse_what_is_left(Roles({}), declared)


def _read(setup: Path) -> str:
    """Before anything is changed, since the file may be missing."""
    try:
        return read(setup)
    except SetupError as error:
        raise UsageError(f"--setup: {error}") from None


def _set_up(url: str, text: str, name: str) -> None:
    try:
        run_text(url, text, name)
    except SetupError as error:
        again = "; it is run every time: write `if not exists`, `or replace` or `on conflict do nothing`"
        raise click.ClickException(
            f"--setup {error}{again if error.already_there else ''}; our own schema is up to date"
        ) from None


def _roles(url: str) -> Roles:
    with closing(connect_sync(url)) as conn:
        return missing_grants(conn)


def _print_script(behind: Drift, grants: Roles | None, packages: Packages, as_json: bool) -> None:
    # The whole file of the roles, since migrate would send the whole file.
    script = behind.script(*([f"-- roles\n{roles_script(packages)}"] if grants is not None else []))
    if as_json:
        output.as_json({**_document(behind, grants), "sql": script})
    elif script:
        click.echo(script)
    else:
        click.echo(_UP_TO_DATE, err=True)


def _print_check(behind: Drift, grants: Roles | None, declared: Declared, as_json: bool) -> None:
    document, roles = _document(behind, grants), grants or Roles({})
    is_behind = not document["up_to_date"]
    if as_json:
        output.as_json({**document, "up_to_date": not is_behind and declared.unread is None})
    else:
        for sentence in [*behind.sentences(), *roles.sentences] or ([] if declared.unread else [_UP_TO_DATE]):
            output.text(sentence)
        if is_behind:
            click.echo(f"Fix: {_fix(behind, roles)}.")
    if is_behind and declared.unread is None:
        raise click.exceptions.Exit(1)


def _fix(behind: Drift, roles: Roles) -> str:
    if behind.newer or not roles.sentences:
        return behind.fix
    # If only usage is missing, --roles has done all that it could: only the schema's owner can grant usage.
    return roles.fix if roles.lack_only_usage and not behind.is_there else WITH_ROLES


def _document(behind: Drift, grants: Roles | None) -> dict[str, object]:
    return {
        "up_to_date": not (behind.is_there or (grants and grants.sentences)),
        "migrations": [file.name for file in behind.migrations],
        "newer": behind.newer,
        "tables": [each.sentence for each in behind.tables],
        "functions": {each.file.name: each.what for each in behind.differences},
        **({} if grants is None else {"roles": grants.lacking}),
    }
