"""`cronlease migrate`: brings the database up to schema/, or says what that would be."""

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cronlease.cli import options, output
from cronlease.cli.drift import REPAIR, Drift, drift
from cronlease.cli.errors import UsageError
from cronlease.cli.progress import bar
from cronlease.cli.roles import READER, RUNNER, for_the_owner, missing_grants, sentences
from cronlease.cli.roles import script as roles_script
from cronlease.cli.source import Declared, Source, declared_packages
from cronlease.cli.table import one_line
from cronlease.db.conninfo import connect_sync
from cronlease.db.migration.migrate import MigrationError, migrate, rehearse, state
from cronlease.db.migration.schema_files import Packages, wanted
from cronlease.db.schema import in_schema
from cronlease.emulator.setup import SetupError, read, run_text
from cronlease.errors import SchemaMissing
from cronlease.observe.redact import redact

if TYPE_CHECKING:
    from cronlease.cli.main import Toolbox

_UP_TO_DATE = "The schema is up to date."
_WITH_ROLES = "run `cronlease migrate --roles` as the owner of the schema, who may create roles"
_UNREAD = (
    "only our own tables, and those of jobs that the database has already, were looked at: correct it, then migrate"
)
_BY_THE_OWNER = "let the owner of the schema run `{}`"
_NEXT = f"Then `grant {RUNNER} to LOGIN` for who runs functions, `grant {READER} to LOGIN` for who looks."


@click.command("migrate")
@options.source
@click.option("--dry-run", is_flag=True, help="Print the SQL that would be applied; write nothing.")
@click.option("--check", is_flag=True, help="Say what is behind; exit status 1 when something is. Write nothing.")
@click.option("--roles", is_flag=True, help="Also the roles cronlease_runner and cronlease_reader.")
@click.option("--setup", type=click.Path(path_type=Path), help="Then run this SQL file, such as your schema.sql.")
@options.as_json
@click.pass_obj
def migrate_command(
    toolbox: "Toolbox",
    source: Source,
    dry_run: bool,
    check: bool,
    roles: bool,
    setup: Path | None,
    as_json: bool,
) -> None:
    """Bring the database up to schema/.

    As the owner of the schema, as often as you like: all of it happens in one transaction, or nothing. It makes our
    own tables and those that the functions of main.py need; what is there already is kept up wherever it is run. What
    --setup names is run after that, in a transaction of its own.
    """
    if dry_run and check:
        raise click.UsageError("--dry-run and --check exclude each other")
    if setup is not None and (dry_run or check):
        raise click.UsageError("--setup runs its file: leave it out where nothing is to be written")
    declared = declared_packages(source, announce=not as_json)
    if dry_run or check:
        _look(toolbox, declared, roles=roles, script=dry_run, as_json=as_json)
        return
    own = None if setup is None else _read(setup)
    with toolbox.database_url() as url:
        before, notes = _roles(url) if roles else {}, list[str]()
        with bar("migrating") as progress:
            try:
                tell = partial(progress.tell, "migrating")
                applied = migrate(url, tell, packages=declared.packages, roles=roles, note=notes.append)
            except MigrationError as error:
                if isinstance(error.__cause__, SchemaMissing):
                    raise MigrationError(f"{error}: {REPAIR}") from error
                raise
        if own is not None:
            _set_up(url, own, str(setup))
        lacking = _roles(url) if roles else {}
    made = {role: "kept up" if lacking is not None else "made" for role, lacking in before.items()}
    if as_json:
        said = {"roles": made, "setup": setup and str(setup), "notes": notes}
        output.as_json({"applied": applied, **{name: what for name, what in said.items() if what}})
        _refuse_what_is_left(lacking, declared)
        return
    for name in applied:
        click.echo(f"applied {name}")
    for line in [
        *notes,
        *([f"ran {setup}"] if setup else []),
        *(f"{what} role {role}" for role, what in made.items()),
    ]:
        output.text(line)
    _refuse_what_is_left(lacking, declared)
    if roles:
        click.echo(in_schema(_NEXT))
    click.echo(_UP_TO_DATE)


def _refuse_what_is_left(lacking: dict[str, list[str] | None], declared: Declared) -> None:
    """What a migration could not do: roles that it could not grant to, a main.py that could not be read."""
    if declared.unread is not None:
        raise click.ClickException(one_line(f"{declared.unread}; {_UNREAD}"))
    if wrong := sentences(lacking):
        statement = for_the_owner(lacking)
        fix = _BY_THE_OWNER.format(statement) if statement else _WITH_ROLES
        raise click.ClickException(one_line(f"{'; '.join(wrong)}: {fix}; all else is up to date"))


def _look(toolbox: "Toolbox", declared: Declared, *, roles: bool, script: bool, as_json: bool) -> None:
    """What migrate would do, as a script or in sentences."""
    with toolbox.connection() as conn:
        there, behind = state(conn, declared.packages), drift(conn, declared.packages)
        lacking = missing_grants(conn) if roles else None
        packages = wanted(conn, declared.packages)
    if script and behind.refused:
        raise MigrationError(behind.refused[0])
    if there in ("adoptable", "partial") and not behind.refused:
        # Only a trial shows whether a trigger or a view of somebody else is in the way.
        with toolbox.database_url() as url:
            rehearse(url, packages)
    if script:
        _print_script(behind, lacking, packages, as_json)
    else:
        _print_check(behind, lacking, declared, as_json)
    _refuse_what_is_left({}, declared)


def _read(setup: Path) -> str:
    """Before anything is changed: the file may not be there."""
    try:
        return read(setup)
    except SetupError as error:
        raise UsageError(one_line(f"--setup: {error}")) from None


def _set_up(url: str, text: str, name: str) -> None:
    try:
        run_text(url, text, name)
    except SetupError as error:
        again = "; it is run every time: write `if not exists`, `or replace` or `on conflict do nothing`"
        sentence = f"--setup {error}{again if error.already_there else ''}; our own schema is up to date"
        raise click.ClickException(one_line(redact(sentence))) from None


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


def _print_check(
    behind: Drift, lacking: dict[str, list[str] | None] | None, declared: Declared, as_json: bool
) -> None:
    wrong = sentences(lacking or {})
    is_behind = behind.is_there or bool(wrong)
    if as_json:
        document = _document(behind, lacking)
        output.as_json({**document, "up_to_date": document["up_to_date"] and declared.unread is None})
    else:
        for sentence in [*behind.sentences(), *wrong] or ([] if declared.unread else [_UP_TO_DATE]):
            output.text(sentence)
        if is_behind:
            click.echo(f"Fix: {_fix(behind, lacking or {})}.")
    if is_behind and declared.unread is None:
        raise click.exceptions.Exit(1)


def _fix(behind: Drift, lacking: dict[str, list[str] | None]) -> str:
    wrong = sentences(lacking)
    if behind.newer or not wrong:
        return behind.fix
    statement = for_the_owner(lacking)
    # Whoever may grant the rest has done so already.
    only_that = all(role and len(role) == 1 for role in lacking.values() if role != [])
    return _BY_THE_OWNER.format(statement) if statement and only_that and not behind.is_there else _WITH_ROLES


def _document(behind: Drift, lacking: dict[str, list[str] | None] | None) -> dict[str, object]:
    return {
        "up_to_date": not (behind.is_there or sentences(lacking or {})),
        "migrations": [file.name for file in behind.migrations],
        "newer": behind.newer,
        "tables": [each.sentence for each in behind.tables],
        "functions": {each.file.name: each.what for each in behind.differences},
        **({} if lacking is None else {"roles": lacking}),
    }
