"""Options and arguments that several verbs share, and how their values are read."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from cronlease import arguments
from cronlease.cli.source import choose
from cronlease.cli.toolbox import Toolbox
from cronlease.job import check_new_name

F = TypeVar("F", bound=Callable[..., Any])
# A day narrower at each end than what schedule_action accepts, which depends on the server's time zone.
_FIRST, _LAST = datetime(1, 1, 3, tzinfo=UTC), datetime(9999, 12, 29, tzinfo=UTC)
_JUST_NOW = timedelta(minutes=1)
_MANY_DIGITS = re.compile(r"[+-]?\d{5,}-")


def _length(ctx: click.Context, _: click.Parameter, text: str | None) -> timedelta | None:
    toolbox: Toolbox = ctx.obj
    return None if text is None else toolbox.duration(text)


def _moment(_ctx: click.Context, _: click.Parameter, text: str | None) -> datetime | None:
    if text is None:
        return None
    out_of_bounds = f"{text!r} is out of bounds: the first time is {_FIRST.date()}, the last one {_LAST.date()}"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        if _MANY_DIGITS.match(text):
            raise click.BadParameter(out_of_bounds) from None
        raise click.BadParameter(f"{text!r} is not a time: write 2026-12-24T18:00Z") from None
    if moment.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no time zone: write 2026-12-24T18:00Z, or +01:00 in the place of Z")
    if not _FIRST <= moment <= _LAST:
        raise click.BadParameter(out_of_bounds)
    # Allows for the time it takes to type what a clock shows.
    if moment < datetime.now(UTC) - _JUST_NOW:
        from cronlease.explain.format import relative

        past = relative(moment, datetime.now(UTC))
        raise click.BadParameter(f"{text!r} was {past}: write a time to come, or leave it out to have it due now")
    return moment


def _object(_ctx: click.Context, _: click.Parameter, text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        given = arguments.decode(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f'not JSON ({error}): write \'{{"key": "value"}}\'') from None
    if not isinstance(given, dict):
        raise click.BadParameter('not a JSON object: write \'{"key": "value"}\'')
    try:
        arguments.encode(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return given


def text(_ctx: click.Context, _: click.Parameter, given: str | None) -> str | None:
    """The value itself, if the database can store it."""
    try:
        (given or "").encode()
    except UnicodeEncodeError:
        raise click.BadParameter("not UTF-8") from None
    return given


def _new_name(ctx: click.Context, parameter: click.Parameter, given: str) -> str:
    filled(ctx, parameter, given)
    try:
        check_new_name(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return given


def filled(ctx: click.Context, parameter: click.Parameter, given: str) -> str:
    if not (text(ctx, parameter, given) or "").strip():
        raise click.BadParameter("must not be empty")
    return given


def confirm(question: str) -> None:
    """Returns only after a yes; otherwise the verb ends with a sentence."""
    try:
        answer = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        raise click.ClickException("nothing was changed: no answer came; --yes does it without a question") from None
    if not answer:
        raise click.ClickException("nothing was changed: the answer was no")


def given_by_hand(name: str) -> bool:
    """Whether that option was written on the command line, rather than being a default or the environment's."""
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE


def length(*names: str, default: str | None = None, text: str) -> Callable[[F], F]:
    shape = "90s|5m|2h|1d"
    return click.option(*names, metavar=shape, callback=_length, default=default, show_default=True, help=text)


def moment(*names: str, text: str) -> Callable[[F], F]:
    return click.option(*names, metavar="TIME", callback=_moment, help=text)


def target_of(help_text: str) -> Callable[[F], F]:
    return click.option("--target", envvar="FUNCTION_TARGET", show_envvar=True, callback=text, help=help_text)


def source_of(help_text: str) -> Callable[[F], F]:
    return click.option(
        "--source",
        type=click.Path(path_type=Path),
        envvar="FUNCTION_SOURCE",
        show_envvar=True,
        callback=choose,
        help=help_text,
    )


name = click.argument("name", callback=text)
new_name = click.argument("name", callback=_new_name)
as_json = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
yes = click.option("--yes", is_flag=True, help="Do not ask.")
reason = click.option("--reason", callback=text, help="Why, for whoever asks.")
force = click.option(
    "--force", is_flag=True, help="Run it even if it is not due, but never while it runs, is paused or completed."
)
args = click.option("--args", metavar="JSON", callback=_object, help="An object for the run, such as '{\"n\": 1}'.")
concurrency = click.option(
    "--concurrency", type=click.IntRange(1, 200), default=1, show_default=True, help="Rows run in parallel."
)
cron = click.option("--cron", metavar="CRON", help='A cron by the wall clock, such as "0 9 * * 1-5".')
time_zone = click.option(
    "--time-zone", metavar="ZONE", help="The zone of --cron, such as Europe/Berlin; by default UTC."
)
source = source_of("The main.py that declares the functions; by default ./main.py, else the shipped one.")
target = target_of("Which function of the source; by default the only one that is scheduled.")
