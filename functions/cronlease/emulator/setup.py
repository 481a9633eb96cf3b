"""Runs a user's SQL file in a database, in one transaction. An error is one sentence that names the line."""

import re
from contextlib import closing
from itertools import accumulate
from pathlib import Path

import psycopg
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from cronlease.db.conninfo import conninfo_of
from cronlease.db.schema import PUBLIC, in_schema, schema

# Comments, strings and names may hold semicolons that end no statement. The last alternative is any character.
_PART = re.compile(
    r"--[^\n]*|/\*.*?\*/|(?<=[eE])'(?:[^'\\]|\\.|'')*'|'[^']*'|\"[^\"]*\"|(?P<tag>\$\w*\$).*?(?P=tag)|.",
    re.DOTALL,
)
# The SQLSTATEs of a schema, a table, a function, another object and a row that exist already.
_ALREADY_THERE = {"42P06", "42P07", "42723", "42710", "23505"}
# Local to the text's own transaction, so it also works behind a pooler.
_RUNNER = "select pg_catalog.set_config('cronlease.runner', 'cronlease_runner', true); "
_IN_USE = (ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH)


class SetupError(Exception):
    """The file could not be run and the database is unchanged. `already_there`: an object or a row exists already."""

    def __init__(self, sentence: str, *, already_there: bool = False) -> None:
        super().__init__(sentence)
        self.already_there = already_there


def run_file(conninfo: str, path: Path) -> None:
    """Raises SetupError."""
    run_text(conninfo, read(path), str(path))


def read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SetupError(f"{path} is not UTF-8, byte {error.start}: save it as UTF-8") from None


def run_text(conninfo: str, text: str, name: str) -> None:
    """Runs the text; `name` is for errors. Outside of the schema public, the setting cronlease.runner tells the text
    which role to grant its tables to. Raises SetupError."""
    runner = "" if schema() == PUBLIC else in_schema(_RUNNER)
    try:
        # Closed without a rollback: psycopg cannot send one while results are outstanding.
        with closing(psycopg.connect(conninfo_of(conninfo), autocommit=True, client_encoding="utf8")) as conn:
            conn.pgconn.send_query(f"{runner}{text}".encode())
            done = -1 if runner else 0
            # Not execute(), which does not say how many statements succeeded before the error.
            while (result := conn.pgconn.get_result()) is not None:
                if result.status == ExecStatus.FATAL_ERROR:
                    raise _error(name, text, result, done, len(runner))
                if result.status in _IN_USE:
                    line = _line_of_statement(text, done)
                    raise SetupError(f"{name}, line {line}: COPY has no data here: write INSERT instead")
                done += 1
            conn.commit()
    except psycopg.Error as error:
        raise SetupError(f"{name} could not be run: {' '.join(str(error).split())}") from None


def _error(name: str, text: str, result: PGresult, done: int, before: int) -> SetupError:
    """For example: my.sql, line 3: relation "prices" already exists."""
    message = _field(result, psycopg.pq.DiagnosticField.MESSAGE_PRIMARY)
    position = _field(result, psycopg.pq.DiagnosticField.STATEMENT_POSITION)
    line = text.count("\n", 0, int(position) - 1 - before) + 1 if position else _line_of_statement(text, done)
    state = _field(result, psycopg.pq.DiagnosticField.SQLSTATE)
    return SetupError(f"{name}, line {line}: {message}", already_there=state in _ALREADY_THERE)


def _field(result: PGresult, field: psycopg.pq.DiagnosticField) -> str:
    return (result.error_field(field) or b"").decode("utf-8", "replace")


def _line_of_statement(text: str, number: int) -> int:
    """The line where the statement with that number begins, counted from 0 without empty statements."""
    parts = [match[0] for match in _PART.finditer(text)]
    begins, seen = None, 0
    for part, end in zip(parts, accumulate(map(len, parts)), strict=True):
        is_code = not part.isspace() and not part.startswith(("--", "/*"))
        if part == ";":
            seen += begins is not None
            begins = None
        elif is_code and begins is None:
            begins = end - len(part)
            if seen == number:
                return text.count("\n", 0, begins) + 1
    return text.count("\n") + 1
