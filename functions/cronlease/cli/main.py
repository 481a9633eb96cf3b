"""The operator's command line. Never imported by a deployed function.

The verbs are in commands/, each imported when it is asked for. A job brings verbs of its own: a click command under
the entry point group `cronlease.commands`. All of them find in `ctx.obj` what we offer them, a Toolbox.
"""

import asyncio
import contextlib
import difflib
import os
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import click

from cronlease.cadence import duration
from cronlease.db.conninfo import advised, connect_sync
from cronlease.db.migration.migrate import MigrationError
from cronlease.db.schema import PUBLIC, in_schema, schema
from cronlease.errors import DatabaseTrouble, NotPermitted, SchemaMissing
from cronlease.observe.redact import printable, redact
from cronlease.settings import Settings, SettingsError, load

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from psycopg import Connection

    from cronlease.cli.progress import Bar

COMMANDS = "cronlease.commands"
_LOOKS = "run it as the owner, or as a role with cronlease_reader, which `cronlease migrate --roles` makes"
_OURS = {
    "doctor": "doctor:doctor_command",
    "emulate": "emulate:emulate_command",
    "exec": "exec:exec_command",
    "explain": "explain:explain_command",
    "init": "init:init_command",
    "migrate": "migrate:migrate_command",
    "recover": "recover:recover_command",
    "run-due": "run_due:run_due_command",
    "runs": "runs:runs_command",
    "schedule": "schedule:schedule_group",
    "serve": "serve:serve_command",
    "status": "status:status_command",
    "trigger": "trigger:trigger_command",
    "ui": "ui:ui_command",
    "worker": "worker:worker_command",
}
# How the help shows them; what is in none of these is the job's.
_GROUPS = {
    "Run": ("trigger", "run-due", "worker", "serve", "exec", "emulate"),
    "Look": ("status", "ui", "runs", "explain"),
    "Schedules": ("schedule", "recover"),
    "The job": (),
    "Set up": ("init", "migrate", "doctor"),
}
_EPILOG = """\b
Exit status:
  0  done; a skipped run and a warning count as done
  1  a run failed, something is broken or cannot be reached
  2  the command line itself is wrong

\b
Without DATABASE_URL it is the embedded PostgreSQL.
NO_COLOR turns colours off.
"""


class Toolbox:
    """What a verb may use of ours; whatever goes wrong in it is a click exception of one sentence."""

    @contextlib.contextmanager
    def connection(self) -> "Iterator[Connection[Any]]":
        """To the configured database, else to the embedded one; in autocommit mode, closed when the block ends."""
        with self.database_url() as url, contextlib.closing(connect_sync(url)) as conn:
            yield conn

    @contextlib.contextmanager
    def database_url(self, *, stays: bool = False) -> Iterator[str]:
        """What is configured, else the embedded server for as long as the block lasts. Who stays can do without a
        server that ends under it, and ends its own without a look at others."""
        with self.troubles(), _database_url(stays=stays) as url:
            yield url

    @contextlib.contextmanager
    def troubles(self) -> Iterator[None]:
        """Trouble with the database in the block ends the verb with one sentence."""
        try:
            yield
        except SchemaMissing as error:
            named = "" if schema() == PUBLIC else f" named {schema()} (CRONLEASE_SCHEMA)"
            sentence = (
                f"the database has no schema of ours{named}, or an older one: run `cronlease migrate` as its owner"
            )
            raise click.ClickException(sentence) from error
        except NotPermitted as error:
            raise click.ClickException(redact(f"{error}: {in_schema(_LOOKS)}")) from error
        except DatabaseTrouble as error:
            raise click.ClickException(redact(advised(error))) from error
        except (MigrationError, SettingsError) as error:
            raise click.ClickException(redact(str(error))) from error
        except asyncio.CancelledError as error:
            sentence = "stopped before the end of a run could be written: its lease runs out by itself"
            raise click.ClickException(sentence) from error

    @property
    def has_database(self) -> bool:
        """Whether one is configured; without, a connection starts the embedded one."""
        try:
            return load().has_database
        except SettingsError:
            return False

    def settings(self) -> Settings:
        try:
            return load()
        except SettingsError as error:
            raise click.ClickException(redact(str(error))) from error

    def redact(self, text: str) -> str:
        """Without secrets, for what a verb prints of an error that it did not foresee."""
        return redact(text)

    def table(
        self,
        heading: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        cut: Collection[str],
        spare: Sequence[str] = (),
    ) -> Iterator[str]:
        """The lines of a table. On a terminal the columns in `spare` go first and those in `cut` get narrower;
        elsewhere nothing is left out. Rows may be a stream of any length."""
        made: Iterator[str] = import_module("cronlease.cli.table").lines(heading, rows, cut=cut, spare=spare)
        return made

    def bar(self, description: str) -> "AbstractContextManager[Bar]":
        """How far a verb is, on a terminal: its `tell(said, done, of)` says more; gone when the block ends."""
        made: AbstractContextManager[Bar] = import_module("cronlease.cli.progress").bar(description)
        return made

    def duration(self, text: str) -> timedelta:
        try:
            return duration(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None


class _Verbs(click.Group):
    """Our verbs, and those that installed packages bring; ours win."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_OURS, *entry_points(group=COMMANDS).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if registered := super().get_command(ctx, cmd_name):
            return registered
        if cmd_name in _OURS:
            module, _, attribute = _OURS[cmd_name].partition(":")
            command: click.Command = getattr(import_module(f"cronlease.cli.commands.{module}"), attribute)
            return command
        return next(map(_brought, entry_points(group=COMMANDS, name=cmd_name)), None)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Says for a mistyped verb which one may have been meant; click knows only those that are loaded."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"did you mean {near[0]}?" if near else "`cronlease --help` shows those there are"
            error.message = f"No such command {args[0]!r}: {hint}"  # type: ignore[misc]
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs by what they are for."""
        placed = {name for verbs in _GROUPS.values() for name in verbs}
        others = tuple(name for name in self.list_commands(ctx) if name not in placed)
        for title, verbs in _GROUPS.items():
            commands = [(name, self.get_command(ctx, name)) for name in verbs or others]
            if lines := [(name, verb.get_short_help_str(80)) for name, verb in commands if verb is not None]:
                with formatter.section(title):
                    formatter.write_dl(lines)

    def main(self, *args: Any, **more: Any) -> Any:
        try:
            return super().main(*args, **more)
        except SystemExit as ended:
            if (loop := sys.modules.get("cronlease.process.loop")) is not None:
                loop.leave_behind(ended.code if isinstance(ended.code, int) else 0)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Whatever goes wrong ends with one sentence; where it came from only --debug shows."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, BrokenPipeError):
            # The second one is a reader that has gone away: click ends quietly.
            raise
        except click.Abort:
            raise click.ClickException("stopped at the question: run it again and answer y") from None
        except KeyboardInterrupt:
            raise click.ClickException("stopped by Ctrl-C: run it again to go on") from None
        except click.ClickException as error:
            _trace(ctx)
            # Final for who raised it; its exit status and usage are to stay, so it is no new one.
            error.message = printable(error.message)  # type: ignore[misc]
            raise
        except Exception as error:
            _trace(ctx)
            more = "" if ctx.params["debug"] else ": --debug shows where"
            sentence = f"an unforeseen error, {type(error).__name__}: {error}{more}"
            raise click.ClickException(printable(redact(sentence))) from None


def _trace(ctx: click.Context) -> None:
    if ctx.params["debug"]:
        click.echo(printable(redact(traceback.format_exc())), err=True, nl=False)


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


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.version_option(package_name="cronlease")
@click.option(
    "--debug", is_flag=True, envvar="CRONLEASE_DEBUG", show_envvar=True, help="Show where an error came from."
)
@click.pass_context
def main(ctx: click.Context, debug: bool) -> None:  # noqa: ARG001 (_Verbs looks at it)
    """Any number of timed hits, exactly one real run: the lease is in Postgres."""
    ctx.obj = Toolbox()
    ctx.color = False if os.environ.get("NO_COLOR") else None


@contextlib.contextmanager
def _database_url(*, stays: bool) -> Iterator[str]:
    """What is configured, or the embedded server for as long as the block lasts."""
    settings = load()
    if settings.has_database:
        yield settings.database_url or ""
        return
    with import_module("cronlease.cli.database").embedded_url(stays=stays) as url:
        yield url


if __name__ == "__main__":
    main()
