"""Keeps the shipped job out of databases that it was not meant for. For every verb that runs functions."""

from collections.abc import Iterable
from contextlib import closing

from cronlease.cli.errors import UsageError
from cronlease.cli.source import Source
from cronlease.db.conninfo import connect_sync
from cronlease.db.migration.packages import MigrationError, of_actions
from cronlease.db.migration.schema_files import has_ledger, packages_in
from cronlease.errors import DatabaseTrouble


def refuse_to_make_its_tables(source: Source, names: Iterable[str], url: str) -> None:
    """Raises UsageError where nobody named the shipped job and the database is one of other functions: a run would
    make the job's tables there. `names` are the functions of the source."""
    if source.is_meant:
        return
    names = list(names)
    try:
        with closing(connect_sync(url)) as conn:
            has_tables = not has_ledger(conn) or set(of_actions(names)) <= packages_in(conn)
    except (DatabaseTrouble, MigrationError):
        # The verb itself reports that.
        return
    if not has_tables:
        raise UsageError(
            f"there is no ./main.py here, and this database has no tables of {', '.join(names)}, the shipped job:"
            f" pass --source FILE for your own function, --source {source.path} to run the shipped one anyway"
        )
