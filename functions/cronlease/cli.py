"""The operator's command line. Never imported by a deployed function.

A job brings verbs of its own: a click command under the entry point group `cronlease.commands`. It is imported when
it is asked for, and finds in `ctx.obj` what we offer it, a Toolbox. Nothing here knows which verbs there are.
"""

import contextlib
import sys
from collections.abc import Iterator
from datetime import timedelta
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cronlease.cadence import duration
from cronlease.database import connect_plain
from cronlease.logs import redact
from cronlease.migrate import MigrationError, migrate
from cronlease.settings import SettingsError, load
from cronlease.trouble import Unreachable

if TYPE_CHECKING:
    from psycopg import Connection

COMMANDS = "cronlease.commands"


class Toolbox:
    """What a job's verb may use of ours; whatever goes wrong in it is a click exception of one sentence."""

    @contextlib.contextmanager
    def connection(self) -> "Iterator[Connection[Any]]":
        """To the configured database, else to the embedded one; in autocommit mode, closed when the block ends."""
        try:
            with _database_url() as url, contextlib.closing(connect_plain(url)) as conn:
                yield conn
        except (SettingsError, Unreachable) as error:
            raise click.ClickException(redact(str(error))) from None

    def duration(self, text: str) -> timedelta:
        try:
            return duration(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None


class _Verbs(click.Group):
    """Our verbs, and those that installed packages bring; ours win."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *entry_points(group=COMMANDS).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if found := super().get_command(ctx, cmd_name):
            return found
        return next(map(_brought, entry_points(group=COMMANDS, name=cmd_name)), None)


def _brought(entry: EntryPoint) -> click.Command:
    """The job's verb; where it cannot be imported a stand-in says so, and the help and the other verbs go on."""
    try:
        command: click.Command = entry.load()
    except (ImportError, AttributeError) as error:
        sentence = f"{entry.name} ({entry.value}) cannot be loaded: {error}"

        def refuse() -> None:
            raise click.ClickException(sentence)

        return click.Command(entry.name, callback=refuse, short_help="(cannot be loaded)")
    return command


class _Seconds(click.ParamType[float]):
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return duration(str(value)).total_seconds()
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cronlease")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Any number of timed hits, exactly one real run: the lease is in Postgres."""
    ctx.obj = Toolbox()


@main.command("migrate")
def migrate_command() -> None:
    """Bring the database up to schema/: run it as the owner, as often as you like."""
    try:
        with _database_url() as url:
            applied = migrate(url)
    except (MigrationError, SettingsError) as error:
        raise click.ClickException(redact(str(error))) from None
    for name in applied:
        click.echo(f"applied {name}")
    click.echo("The schema is up to date.")


@main.command("emulate")
@click.option("--port", default=8080, show_default=True, help="Where the function listens, on loopback.")
@click.option("--hit-every", type=_Seconds(), default="2s", show_default=True, help="How often it is hit.")
@click.option("--for", "seconds", type=_Seconds(), default=None, help="Stop by itself after that long.")
@click.option("--source", type=click.Path(path_type=Path), default=None, help="Your own main.py.")
@click.option("--target", default="refresh_opening_signals", show_default=True, help="The function in it.")
def emulate_command(port: int, hit_every: float, seconds: float | None, source: Path | None, target: str) -> None:
    """Run it all on this machine: database, sample feeds, the function, and a scheduler that hits it."""
    from cronlease.emulator.emulate import emulate

    sys.exit(emulate(port=port, every=hit_every, source=source, target=target, seconds=seconds, echo=click.echo))


@contextlib.contextmanager
def _database_url() -> Iterator[str]:
    """What is configured, or the embedded server for as long as the block lasts."""
    settings = load()
    if settings.has_database:
        yield settings.database_url or ""
        return
    from cronlease.emulator.postgres import EmbeddedPostgres, EmbeddedPostgresError, default_data_dir

    try:
        server = EmbeddedPostgres.start(default_data_dir() / "postgres")
    except EmbeddedPostgresError as error:
        raise click.ClickException(str(error)) from None
    with server:
        yield server.dsn


if __name__ == "__main__":
    main()
