"""The job's verbs for the operator: what the feeds would give, what they gave, and to forget one that is gone. Only
the last one writes.

cronlease's command line finds them by their entry points and gives them its Toolbox as ctx.obj.
"""

import asyncio
import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import psycopg

from opening_signals import settings
from opening_signals.store.orphaned_sources import forget, is_known, sentence, strays_now
from opening_signals.table import cell, lines, spreadsheet

if TYPE_CHECKING:
    from cronlease.cli.main import Toolbox
    from opening_signals.collect import Collected
    from opening_signals.feeds.model import Source

_SIGNALS = Path(__file__).with_name("signals.sql")
_SHOWN = ("signal", "at", "source", "title", "organization", "location", "url")
_SHORTENED = ("source", "title", "organization", "location")
_LIMIT = 100
_MOST_COUNTED = 10_000
_PAGE = 1000
_NO_SOURCES = "There are no sources yet: name a TOML file with a [[source]] in CRONLEASE_SOURCES."


def _within(ctx: click.Context, _: click.Parameter, text: str) -> timedelta:
    toolbox: Toolbox = ctx.obj
    length = toolbox.duration(text)
    if not length:
        raise click.BadParameter("it must be longer than nothing")
    return length


@contextmanager
def _openings(toolbox: "Toolbox") -> "Iterator[psycopg.Connection[Any]]":
    """A connection; what the database cannot do with it is one sentence."""
    with toolbox.connection() as conn:
        try:
            yield conn
        except psycopg.errors.UndefinedTable:
            raise click.ClickException("the database has no openings yet: run cronlease migrate") from None
        except psycopg.errors.LockNotAvailable:
            raise click.ClickException("a run is writing of that source: try again when it is done") from None
        except psycopg.Error as error:
            raise click.ClickException(error.diag.message_primary or " ".join(str(error).split())) from None


@click.command("signals")
@click.option(
    "--since",
    "within",
    default="24h",
    show_default=True,
    metavar="90m|24h|7d",
    callback=_within,
    help="How far back.",
)
@click.option("--source", default=None, metavar="NAME", help="Only the openings of this source.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000_000),
    help=f"At most so many; by default {_LIMIT}, and all with --json or --csv.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON array, an opening a line.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV with a heading, safe to open in a spreadsheet.")
@click.pass_obj
def signals(
    toolbox: "Toolbox", within: timedelta, source: str | None, limit: int | None, as_json: bool, as_csv: bool
) -> None:
    """Show openings that are new, changed or closed.

    A terminal without room for the addresses goes without them: --json and --csv have all there is.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    form = "json" if as_json else "csv" if as_csv else None
    with _openings(toolbox) as conn:
        if source is not None and not is_known(conn, source) and source not in _names():
            raise click.ClickException(
                f"there is no source {source!r}: neither in the database nor in the sources file"
            )
        # A cursor of the server's: a first load may be a million rows.
        with conn.transaction(), conn.cursor("signals") as cursor:
            cursor.itersize = _PAGE
            cursor.execute(_SIGNALS.read_bytes(), {"within": within, "source": source})
            names, rows = [column.name for column in cursor.description or []], iter(cursor)
            if form is None:
                _print_table(toolbox, names, rows, limit or _LIMIT)
            else:
                (_print_openings if form == "json" else _print_csv)(names, islice(rows, limit))


def _names() -> set[str]:
    """Of the sources in the file; of one that cannot be read, none."""
    from opening_signals.sources_file import SourcesError, load

    try:
        return {source.name for source in load(settings.sources_file())}
    except SourcesError:
        return set()


def _print_table(toolbox: "Toolbox", names: Sequence[str], rows: Iterator[Any], limit: int) -> None:
    """As many as there may be, and how many more there are."""
    if (first := next(rows, None)) is None:
        click.echo("No opening came, changed or closed in that time.")
        return
    places = [names.index(name) for name in _SHOWN]
    chosen = ([row[place] for place in places] for row in islice(chain([first], rows), limit))
    # Half an address is none.
    _print(lines(_SHOWN, chosen, partial(toolbox.fit, cut=_SHORTENED, spare=("url",))))
    if more := sum(1 for _ in islice(rows, _MOST_COUNTED)):
        there = f"{'at least ' if more == _MOST_COUNTED else ''}{more}"
        click.echo(f"{there} more: --limit shows more than {limit}.", err=True)


def _print_openings(names: Sequence[str], rows: Iterable[Any]) -> None:
    _print_json(dict(zip(names, row, strict=True)) for row in rows)


@click.group("sources")
def sources() -> None:
    """The sources of CRONLEASE_SOURCES: look at them, or forget one that is gone."""


@sources.command("check")
@click.option("--source", "name", default=None, metavar="NAME", help="Only this one.")
@click.option(
    "--timeout",
    "within",
    default="3m",
    show_default=True,
    metavar="30s|3m",
    callback=_within,
    help="How long each source may take.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON array, a source a line.")
@click.pass_obj
def check_command(toolbox: "Toolbox", name: str | None, within: timedelta, as_json: bool) -> None:
    """Fetch each source without writing anything; exit status 1 when one fails."""
    from opening_signals import check

    chosen = _chosen(name)
    if not chosen:
        click.echo(_NO_SOURCES, err=True)
    try:
        with toolbox.bar("checking") as shown:
            left = [source.name for source in chosen]

            def done(found: "Collected") -> None:
                left.remove(found.source.name)
                shown.tell(f"waiting for {', '.join(left[:3])}", len(chosen) - len(left), len(chosen))

            checked = asyncio.run(check.check(chosen, seconds=within.total_seconds(), done=done))
    except settings.SettingError as error:
        raise click.ClickException(str(error)) from None
    for found in checked:
        found.error = found.error and toolbox.redact(found.error)
    if as_json:
        _print_json(map(check.fields, checked))
    elif checked:
        _print(lines(check.HEADING, map(check.row, checked), partial(toolbox.fit, cut=("name",), spare=())))
        _print(cell(note) for found in checked for note in check.notes(found))
    if name is None and (told := _strays(toolbox, {source.name for source in chosen})):
        click.echo(cell(told), err=as_json)
    if any(found.error for found in checked):
        raise click.exceptions.Exit(1)


def _strays(toolbox: "Toolbox", names: set[str]) -> str | None:
    """What is said of sources that are not in the file; nothing where there is no database to ask."""
    if not toolbox.has_database or not settings.sources_file():
        return None
    try:
        with _openings(toolbox) as conn:
            return sentence(strays_now(conn, names))
    except click.ClickException:
        return None


@sources.command("forget")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@click.pass_obj
def forget_command(toolbox: "Toolbox", name: str, yes: bool, as_json: bool) -> None:
    """Close the openings of a source that is no longer in the sources file, and forget what is remembered of it."""
    if not settings.sources_file():
        raise click.ClickException("CRONLEASE_SOURCES is not set: without the file nobody knows that it is not in it")
    if any(source.name == name for source in _chosen(None)):
        raise click.ClickException(f"source {name!r} is still in the sources file: take it out first")
    with _openings(toolbox) as conn:
        if not is_known(conn, name):
            raise click.ClickException(f"there is no source {name!r} in the database")
        if not yes:
            click.confirm(f"Close all openings of {name!r} and forget it?", abort=True, err=True)
        closed = forget(conn, name)
    if as_json:
        click.echo(json.dumps({"source": name, "closed": closed}))
        return
    click.echo(f"Forgot {name!r}: {closed} {'opening' if closed == 1 else 'openings'} closed.")


def _chosen(name: str | None) -> "list[Source]":
    from opening_signals.sources_file import SourcesError, load

    try:
        found = load(settings.sources_file())
    except SourcesError as error:
        raise click.ClickException(str(error)) from None
    if name is None:
        return found
    chosen = [source for source in found if source.name == name]
    if not chosen:
        names = ", ".join(source.name for source in found) or "none"
        raise click.ClickException(f"there is no source {name!r} in the sources file; it has {names}")
    return chosen


def _print(text: Iterable[str]) -> None:
    for line in text:
        click.echo(line)


def _print_json(items: Iterable[dict[str, Any]]) -> None:
    """An item a line, so that it can be both parsed as a whole and read as it comes."""
    separator = "["
    for item in items:
        click.echo(f"{separator}\n{json.dumps(item, default=_plain)}", nl=False)
        separator = ","
    click.echo("\n]" if separator == "," else "[]")


def _print_csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(names)
    writer.writerows([_plain(spreadsheet(value)) for value in row] for row in rows)


def _plain(value: object) -> object:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
