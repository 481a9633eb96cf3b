"""The operator's command line. A function never imports it.

The verbs are in commands/, and each is imported when it is used. A job adds verbs of its own: a click command under
the entry point group `cronlease.commands`. Every verb finds a Toolbox in `ctx.obj`.
"""

import os
import sys
import traceback
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from cronlease.cli.table import one_line
from cronlease.cli.toolbox import Toolbox
from cronlease.observe.redact import printable, redact
from cronlease.process.importing import uncollected

__all__ = ["COMMANDS", "Toolbox", "main"]

COMMANDS = "cronlease.commands"
# Our verbs, in the sections of the help. Verb x-y is `x_y_command` in commands/x_y.py; any other verb is the job's.
_GROUPS = {
    "Run": ("trigger", "run-due", "worker", "serve", "exec", "emulate"),
    "Look": ("status", "ui", "runs", "explain"),
    "Schedules": ("schedule", "recover"),
    "The job": (),
    "Set up": ("init", "migrate", "doctor"),
}
_OURS = {name for verbs in _GROUPS.values() for name in verbs}
_EPILOG = """\b
Exit status:
  0  done; a skipped run and a warning count as done
  1  a run failed, something is broken or cannot be reached
  2  the command line itself is wrong
  exec exits with the status of its command

\b
Without DATABASE_URL, the embedded PostgreSQL is used.
NO_COLOR turns colours off.
"""


class _Verbs(click.Group):
    """Our verbs, and those that installed packages bring; ours win."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_OURS, *entry_points(group=COMMANDS).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if registered := super().get_command(ctx, cmd_name):
            return registered
        if cmd_name in _OURS:
            name = cmd_name.replace("-", "_")
            with uncollected():
                module = import_module(f"cronlease.cli.commands.{name}")
            command: click.Command = getattr(module, f"{name}_command")
            return command
        return next(map(_verb_of, entry_points(group=COMMANDS, name=cmd_name)), None)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Suggests a similar verb for a mistyped one; click itself knows only those that are loaded."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"did you mean {near[0]}?" if near else "`cronlease --help` lists the commands"
            error.message = f"No such command {args[0]!r}: {hint}"  # type: ignore[misc]
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Groups the verbs by what they are for."""
        others = tuple(name for name in self.list_commands(ctx) if name not in _OURS)
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
        """Every error ends with one printable line without secrets, so verbs raise whatever text they have. Only
        --debug shows where it came from."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, BrokenPipeError):
            # After BrokenPipeError, whoever read our output has gone: click ends quietly.
            raise
        except click.Abort:
            raise click.ClickException("stopped at the question: run it again and answer y") from None
        except KeyboardInterrupt:
            raise click.ClickException("stopped by Ctrl-C: run it again to go on") from None
        except click.ClickException as error:
            _trace(ctx)
            # Changed in place, to keep its exit status and usage.
            error.message = one_line(redact(error.message))  # type: ignore[misc]
            raise
        except Exception as error:
            _trace(ctx)
            more = "" if ctx.params["debug"] else ": --debug shows where"
            sentence = f"an unexpected error, {type(error).__name__}: {error}{more}"
            raise click.ClickException(printable(redact(sentence))) from None


def _trace(ctx: click.Context) -> None:
    if ctx.params["debug"]:
        click.echo(printable(redact(traceback.format_exc())), err=True, nl=False)


def _verb_of(entry: EntryPoint) -> click.Command:
    """A job's verb. One that cannot be imported gives way to a verb that says so; help and the others still work."""
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
def main(ctx: click.Context, debug: bool) -> None:  # noqa: ARG001 (_Verbs reads it)
    """Any number of timed hits, exactly one real run: the lease is in Postgres."""
    ctx.obj = Toolbox()
    ctx.color = False if os.environ.get("NO_COLOR") else None


if __name__ == "__main__":
    main()
