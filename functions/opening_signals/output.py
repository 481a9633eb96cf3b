"""What the job's commands print: lines, JSON, CSV, and values as cells. Feeds write what they like: nothing that is
not printable gets to a terminal or into a spreadsheet."""

import csv
import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from unicodedata import category

import click

# Full-width signs count as well. A spreadsheet with other separators than ours may begin a cell after any of these.
_FORMULA = re.compile(r"(^|[,;|])(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])")


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def print_json(items: Iterable[dict[str, Any]]) -> None:
    """An item a line, so that it can be both parsed as a whole and read as it comes."""
    separator = "["
    for item in items:
        click.echo(f"{separator}\n{json.dumps(item, default=_plain)}", nl=False)
        separator = ","
    click.echo("\n]" if separator == "," else "[]")


def print_csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(names)
    writer.writerows([_plain(spreadsheet_cell(value)) for value in row] for row in rows)


def _plain(value: object) -> object:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


def cell(value: object) -> str:
    """A time in the local zone, null as nothing, and no character that is not printable."""
    if value is None:
        return ""
    return _printable(f"{value.astimezone():%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value))


def spreadsheet_cell(value: object) -> object:
    """The value as a cell of a CSV file: what a spreadsheet would take for a formula is marked as text, at the
    beginning of the cell and after each separator in it."""
    return _printable(_FORMULA.sub(r"\1'", value)) if isinstance(value, str) else value


def _printable(text: str) -> str:
    """A space for every kind of space, and a question mark for whatever else is not printable: it may move the
    cursor."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if category(char) == "Zs" else "?" for char in text)
