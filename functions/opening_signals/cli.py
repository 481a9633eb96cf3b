"""The job's verbs for the operator: what the feeds would give, and what they gave. Neither writes anything.

cronlease's command line finds them by their entry points and gives them its Toolbox as ctx.obj.
"""

import asyncio
import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import psycopg

from opening_signals.table import cell, lines

if TYPE_CHECKING:
    from cronlease.cli import Toolbox
    from opening_signals.model import Source

_SIGNALS = Path(__file__).with_name("signals.sql")
_SHOWN = ("signal", "at", "source", "title", "organization", "location", "url")
_PAGE = 1000
_NO_SOURCES = "There are no sources yet: name a TOML file with a [[source]] in CRONLEASE_SOURCES."


def _within(ctx: click.Context, _: click.Parameter, text: str) -> timedelta:
    toolbox: Toolbox = ctx.obj
    return toolbox.duration(text)


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
@click.option("--json", "form", flag_value="json", help="One JSON array, an opening a line.")
@click.option("--csv", "form", flag_value="csv", help="CSV with a heading.")
@click.pass_obj
def signals(toolbox: "Toolbox", within: timedelta, source: str | None, form: str | None) -> None:
    """Show openings that are new, changed or closed."""
    with toolbox.connection() as conn:
        try:
            # A cursor of the server's: a first load may be a million rows.
            with conn.transaction(), conn.cursor("signals") as cursor:
                cursor.itersize = _PAGE
                cursor.execute(_SIGNALS.read_bytes(), {"within": within, "source": source})
                _print_signals([column.name for column in cursor.description or []], iter(cursor), form)
        except psycopg.errors.UndefinedTable:
            raise click.ClickException("the database has no openings yet: run cronlease migrate") from None
        except psycopg.Error as error:
            raise click.ClickException(error.diag.message_primary or " ".join(str(error).split())) from None


def _print_signals(names: Sequence[str], rows: Iterator[Any], form: str | None) -> None:
    if form == "json":
        _print_json(dict(zip(names, row, strict=True)) for row in rows)
    elif form == "csv":
        _print_csv(names, rows)
    elif (first := next(rows, None)) is None:
        click.echo("No opening came, changed or closed in that time.")
    else:
        places = [names.index(name) for name in _SHOWN]
        _print(lines(_SHOWN, ([row[place] for place in places] for row in chain([first], rows))))


@click.group("sources")
def sources() -> None:
    """Look at the sources of CRONLEASE_SOURCES."""


@sources.command("check")
@click.option("--source", "name", default=None, metavar="NAME", help="Only this one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array, a source a line.")
def check_command(name: str | None, as_json: bool) -> None:
    """Fetch each source without writing anything; exit status 1 when one fails."""
    from opening_signals import check

    chosen = _chosen(name)
    if not chosen:
        click.echo(_NO_SOURCES, err=True)
    checked = asyncio.run(check.check(chosen))
    if as_json:
        _print_json(map(check.fields, checked))
    elif checked:
        _print(lines(check.HEADING, map(check.row, checked)))
        _print(cell(note) for found in checked for note in check.notes(found))
    if any(found.error for found in checked):
        raise click.exceptions.Exit(1)


def _chosen(name: str | None) -> "list[Source]":
    from opening_signals.catalogue import SourcesError, load

    try:
        found = load(os.environ.get("CRONLEASE_SOURCES"))
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
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_plain(value) for value in row] for row in rows)


def _plain(value: object) -> object:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
