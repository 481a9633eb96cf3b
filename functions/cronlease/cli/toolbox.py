"""What a verb, ours or a job's, may use: connections, tables, a progress bar, errors of one sentence."""

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta

import click

from cronlease.cadence import duration
from cronlease.cli.progress import Bar, bar
from cronlease.cli.table import lines
from cronlease.db.conninfo import SyncConnection, advised, connect_sync
from cronlease.db.migration.packages import MigrationError
from cronlease.db.schema import PUBLIC, in_schema, schema
from cronlease.errors import DatabaseTrouble, NotPermitted, SchemaMissing
from cronlease.observe.redact import redact
from cronlease.settings import Settings, SettingsError, load

# Which role may use a verb besides the owner of the schema; any other verb may be used by a reader.
_OF_THE_OWNER = {"runs", "explain", "list", "show", "pause", "resume", "unlock", "delete", "recover", "migrate"}
_OF_A_RUNNER = {"trigger", "run-due", "worker", "serve", "exec", "create", "run"}


class Toolbox:
    """Every verb finds one in `ctx.obj`."""

    @contextlib.contextmanager
    def connection(self) -> Iterator[SyncConnection]:
        """To the configured database, else to the embedded one; in autocommit mode, closed when the block ends."""
        with self.database_url() as url, contextlib.closing(connect_sync(url)) as conn:
            yield conn

    @contextlib.contextmanager
    def database_url(self, *, stays: bool = False) -> Iterator[str]:
        """The configured database, else the embedded server for as long as the block lasts. `stays=True` is for a
        process that survives losing the server, and so never has to keep it up for others."""
        with self.troubles():
            settings = load()
            if settings.has_database:
                yield settings.database_url or ""
                return
            from cronlease.cli.database import embedded_url

            with embedded_url(stays=stays) as url:
                yield url

    @contextlib.contextmanager
    def troubles(self) -> Iterator[None]:
        """Trouble with the database in the block ends the verb with one sentence."""
        try:
            yield
        except SchemaMissing as error:
            named = "" if schema() == PUBLIC else f" named {schema()} (CRONLEASE_SCHEMA)"
            raise click.ClickException(
                f"the database has no schema of ours{named}, or an older one: run `cronlease migrate` as its owner"
            ) from error
        except NotPermitted as error:
            raise click.ClickException(f"{error}: {_who_may()}") from error
        except DatabaseTrouble as error:
            raise click.ClickException(advised(error)) from error
        except (MigrationError, SettingsError) as error:
            raise click.ClickException(str(error)) from error
        except asyncio.CancelledError as error:
            raise click.ClickException(
                "stopped before the end of a run could be written: its lease runs out by itself"
            ) from error

    @property
    def has_database(self) -> bool:
        """Whether one is configured; if not, a connection starts the embedded one."""
        try:
            return load().has_database
        except SettingsError:
            return False

    def settings(self) -> Settings:
        try:
            return load()
        except SettingsError as error:
            raise click.ClickException(str(error)) from error

    def redact(self, text: str) -> str:
        """The text without secrets: for printing an error that the verb did not expect."""
        return redact(text)

    def table(
        self,
        heading: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        cut: Collection[str],
        spare: Sequence[str] = (),
    ) -> Iterator[str]:
        """The lines of a table. On a narrow terminal the columns in `spare` are dropped first, then those in `cut`
        get narrower; elsewhere nothing is left out. Rows may be a stream of any length."""
        return lines(heading, rows, cut=cut, spare=spare)

    def bar(self, description: str) -> AbstractContextManager[Bar]:
        """Shows progress on a terminal until the block ends; its `tell(description, done, of)` updates it."""
        return bar(description)

    def duration(self, text: str) -> timedelta:
        try:
            return duration(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None


def _who_may() -> str:
    context = click.get_current_context(silent=True)
    verb = context.info_name if context else None
    if verb in _OF_THE_OWNER:
        return "run it as the owner of the schema"
    role = "cronlease_runner" if verb in _OF_A_RUNNER else "cronlease_reader"
    return in_schema(f"run it as the owner, or as a role with {role}, which `cronlease migrate --roles` makes")
