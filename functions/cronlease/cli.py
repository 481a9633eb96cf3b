"""The operator's command line. Never imported by a deployed function."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from cronlease.cadence import duration
from cronlease.logs import redact
from cronlease.migrate import MigrationError, migrate
from cronlease.settings import SettingsError, load


class _Seconds(click.ParamType[float]):
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return duration(str(value)).total_seconds()
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cronlease")
def main() -> None:
    """Any number of timed hits, exactly one real run: the lease is in Postgres."""


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
