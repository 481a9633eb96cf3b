"""The job's commands for the operator: show openings, check sources, and forget a source that is gone. Only the last
one writes.

cronlease's command line finds them by their entry points and passes its Toolbox as ctx.obj.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import psycopg
from psycopg.rows import dict_row

from cronlease.db.queries import load_queries
from opening_signals import settings
from opening_signals.output import cell, print_csv, print_json, print_lines
from opening_signals.store.orphaned_sources import forget_source, orphaned_sources_sync, sentence, source_exists

if TYPE_CHECKING:
    from cronlease.cli.main import Toolbox
    from opening_signals.feeds.model import Source
    from opening_signals.source_result import SourceResult

_QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
_SHOWN = ("signal", "at", "source", "title", "organization", "location", "changes", "url")
_SHORTENED = ("source", "title", "organization", "location", "changes")
_LIMIT = 100
_MOST_COUNTED = 10_000
_PAGE = 1000
_NO_TABLES = (
    "the database has no openings, since refresh_opening_signals is not declared for it: run `cronlease migrate` with"
    " the --source that declares it"
)
_NO_SOURCES = "There are no sources yet: name a TOML file with a [[source]] in CRONLEASE_SOURCES."


def _duration(flag: str, **more: Any) -> Callable[[Any], Any]:
    """An option with a duration; the command gets it as `within`."""

    def read(ctx: click.Context, _: click.Parameter, text: str) -> timedelta:
        length: timedelta = ctx.obj.duration(text)
        if not length:
            raise click.BadParameter("it must be longer than 0")
        return length

    return click.option(flag, "within", show_default=True, callback=read, **more)


@contextmanager
def _connection(toolbox: "Toolbox") -> "Iterator[psycopg.Connection[Any]]":
    """A connection; an error of the database ends the command with one sentence."""
    with toolbox.connection() as conn:
        try:
            yield conn
        except psycopg.errors.UndefinedTable:
            raise click.ClickException(_NO_TABLES) from None
        except psycopg.errors.LockNotAvailable:
            raise click.ClickException("a run is writing this source: try again when it is done") from None
        except psycopg.Error as error:
            raise click.ClickException(error.diag.message_primary or " ".join(str(error).split())) from None


@click.command("signals")
@_duration("--since", default="24h", metavar="90m|24h|7d", help="How far back.")
@click.option("--source", default=None, metavar="NAME", help="Only the openings of this source.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000_000),
    help=f"The most rows to show; by default {_LIMIT}, and all with --json or --csv.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON array, one opening per line.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV with a heading, safe to open in a spreadsheet.")
@click.pass_obj
def signals(
    toolbox: "Toolbox", within: timedelta, source: str | None, limit: int | None, as_json: bool, as_csv: bool
) -> None:
    """Show openings that are new, changed or closed.

    A narrow terminal leaves out the addresses; --json and --csv have every column.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    with _connection(toolbox) as conn:
        if source is not None and not source_exists(conn, source) and source not in _names():
            raise click.ClickException(f"there is no source {source!r}, neither in the database nor in the file")
        # A server-side cursor: a first load may be a million rows.
        with conn.transaction(), conn.cursor("signals") as cursor:
            cursor.itersize = _PAGE
            cursor.execute(_QUERIES["signals"], {"within": within, "source": source})
            names, rows = [column.name for column in cursor.description or []], iter(cursor)
            if as_json:
                print_json(dict(zip(names, row, strict=True)) for row in islice(rows, limit))
            elif as_csv:
                print_csv(names, ([_readable(value) for value in row] for row in islice(rows, limit)))
            else:
                _print_table(toolbox, names, rows, limit or _LIMIT)


def _names() -> set[str]:
    """The names of the sources in the file; none if it cannot be read."""
    try:
        return {source.name for source in _sources()}
    except click.ClickException:
        return set()


def _print_table(toolbox: "Toolbox", names: Sequence[str], rows: Iterator[Any], limit: int) -> None:
    """Prints at most this many rows, and how many more there are."""
    if (first := next(rows, None)) is None:
        click.echo("No opening appeared, changed or closed in that time.")
        return
    places = [names.index(name) for name in _SHOWN]
    shown = ([cell(_readable(row[place])) for place in places] for row in islice(chain([first], rows), limit))
    # Half an address is useless: it is shown whole or not at all.
    print_lines(toolbox.table(_SHOWN, shown, cut=_SHORTENED, spare=("url",)))
    if more := sum(1 for _ in islice(rows, _MOST_COUNTED)):
        count = f"{'at least ' if more == _MOST_COUNTED else ''}{more}"
        click.echo(f"{count} more: --limit shows more than {limit}.", err=True)


def _readable(value: Any) -> Any:
    """The changes of an opening as text; any other value as it is."""
    if not isinstance(value, list):
        return value
    return "; ".join(f"{each['field']}: {each['from'] or '-'} -> {each['to'] or '-'}" for each in value)


@click.group("sources")
def sources() -> None:
    """Check or list the sources of CRONLEASE_SOURCES, or forget one that is gone."""


@sources.command("check")
@click.option("--source", "name", default=None, metavar="NAME", help="Only this one.")
@_duration("--timeout", default="3m", metavar="30s|3m", help="How long each source may take.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array, one source per line.")
@click.pass_obj
def check_command(toolbox: "Toolbox", name: str | None, within: timedelta, as_json: bool) -> None:
    """Fetch each source without writing anything; exit status 1 when one fails."""
    from opening_signals import check

    chosen = _sources(name)
    if not chosen:
        click.echo(_NO_SOURCES, err=True)
    results = _checked(toolbox, chosen, within)
    if as_json:
        print_json(map(check.fields, results))
    elif results:
        print_lines(toolbox.table(check.HEADING, map(check.row, results), cut=("name",)))
        print_lines(cell(note) for result in results for note in check.notes(result))
    if name is None and (orphans := _orphans(toolbox, {source.name for source in chosen})):
        click.echo(cell(orphans), err=as_json)
    if any(result.error and result.asked for result in results):
        raise click.exceptions.Exit(1)


def _checked(toolbox: "Toolbox", chosen: "list[Source]", within: timedelta) -> "list[SourceResult]":
    """The result of each source, without secrets. A bar shows the progress."""
    from opening_signals import check

    left = [source.name for source in chosen]
    try:
        with toolbox.bar("checking") as bar:

            def done(result: "SourceResult") -> None:
                left.remove(result.source.name)
                bar.tell(f"waiting for {', '.join(left[:3])}", len(chosen) - len(left), len(chosen))

            results = asyncio.run(check.check(chosen, seconds=within.total_seconds(), done=done))
    except settings.SettingError as error:
        raise click.ClickException(str(error)) from None
    for result in results:
        result.error = result.error and toolbox.redact(result.error)
    return results


def _orphans(toolbox: "Toolbox", names: set[str]) -> str | None:
    """The sentence about sources that are not in the file; None without a database."""
    if not toolbox.has_database or not settings.sources_file():
        return None
    try:
        with _connection(toolbox) as conn:
            return sentence(orphaned_sources_sync(conn, names))
    except click.ClickException:
        return None


@sources.command("status")
@click.option("--json", "as_json", is_flag=True, help="One JSON array, one source per line.")
@click.pass_obj
def status_command(toolbox: "Toolbox", as_json: bool) -> None:
    """Show the state of each source: its last success, its failures since, and until when it is left alone."""
    from opening_signals import status

    listed = _sources()
    with _connection(toolbox) as conn:
        stored = conn.cursor(row_factory=dict_row).execute(_QUERIES["source_status"]).fetchall()
    entries = status.entries(listed, stored)
    for entry in entries:
        entry["why"] = entry["why"] and toolbox.redact(entry["why"])
    if as_json:
        print_json(entries)
    elif entries:
        shown = ([cell(entry[name]) for name in status.HEADING] for entry in entries)
        print_lines(toolbox.table(status.HEADING, shown, cut=("name", "why")))
    else:
        click.echo(_NO_SOURCES, err=True)


@sources.command("forget")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@click.pass_obj
def forget_command(toolbox: "Toolbox", name: str, yes: bool, as_json: bool) -> None:
    """Close the openings of a source that is no longer in the sources file, and delete its state."""
    if not settings.sources_file():
        raise click.ClickException(
            "CRONLEASE_SOURCES is not set: without the file it is unknown which sources are gone"
        )
    if any(source.name == name for source in _sources()):
        raise click.ClickException(f"source {name!r} is still in the sources file: take it out first")
    with _connection(toolbox) as conn:
        if not source_exists(conn, name):
            raise click.ClickException(f"there is no source {name!r} in the database")
        if not yes:
            click.confirm(f"Close all openings of {name!r} and forget it?", abort=True, err=True)
        closed = forget_source(conn, name)
    done = f"Forgot {name!r}: {closed} {'opening' if closed == 1 else 'openings'} closed."
    click.echo(json.dumps({"source": name, "closed": closed}) if as_json else done)


def _sources(name: str | None = None) -> "list[Source]":
    """The sources of the file, or the one with that name."""
    from opening_signals.sources_file import SourcesError, load

    try:
        listed = load(settings.sources_file())
    except SourcesError as error:
        raise click.ClickException(str(error)) from None
    chosen = [source for source in listed if name in (None, source.name)]
    if name and not chosen:
        names = ", ".join(source.name for source in listed) or "none"
        raise click.ClickException(f"there is no source {name!r} in the sources file; it has {names}")
    return chosen
