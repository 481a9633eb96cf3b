"""Prints lines, JSON and CSV for the job's commands. Feeds are not trusted: only printable characters reach a
terminal or a spreadsheet."""

import csv
import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from unicodedata import category

import click

# Full-width signs too. A spreadsheet with other separators than ours may begin a cell after any of these.
_FORMULA = re.compile(r"(^|[,;|])(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])")


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def print_json(items: Iterable[dict[str, Any]]) -> None:
    """One item per line, so that a reader can parse the whole or stream it."""
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
    """Times in the local zone, nulls as an empty cell, and only printable characters."""
    if value is None:
        return ""
    return _printable(f"{value.astimezone():%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value))


def spreadsheet_cell(value: object) -> object:
    """The value as a cell of a CSV file: formulas are marked as text, at the beginning of the cell and after each
    separator in it."""
    return _printable(_FORMULA.sub(r"\1'", value)) if isinstance(value, str) else value


def _printable(text: str) -> str:
    """Replaces any kind of space by a space, and other unprintable characters, which may move the cursor, by `?`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if category(char) == "Zs" else "?" for char in text)
