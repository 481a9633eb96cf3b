"""How far a database is from schema/: migrations it has not seen, functions and views that differ from their files.

Asks, and changes nothing: each function is made once more among the temporary things of a transaction that is rolled
back, so that the server itself says what it makes of the file. That takes no lock anybody waits for, and no more
rights than to look.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cronlease.database import ask_plain, send_plain
from cronlease.migrate import SchemaFile, functions_and_views, grants_of, pending
from cronlease.trouble import DatabaseTrouble
from cronlease.wall import Query

if TYPE_CHECKING:
    from psycopg import Connection

_OPENING = "begin; set local check_function_bodies = off; set local lock_timeout = '5s'"


class Difference(NamedTuple):
    """A function or view that is not as its file says: missing, another one, or with an older one beside it."""

    file: SchemaFile
    what: str
    # Statements before and after the file's own, where it cannot be replaced in place.
    before: list[str]
    after: list[str]


class Drift(NamedTuple):
    migrations: list[SchemaFile]
    differences: list[Difference]

    @property
    def is_there(self) -> bool:
        return bool(self.migrations or self.differences)

    def sentences(self) -> list[str]:
        """One for each thing that is behind."""
        return [
            *(f"migration {file.name} is missing" for file in self.migrations),
            *(f"{found.file.name} {found.what}" for found in self.differences),
        ]

    def script(self) -> str:
        """What migrate would do about it, for a person to read or for psql."""
        if not self.is_there:
            return ""
        parts = ["begin;", "set local check_function_bodies = off;"]
        for file in self.migrations:
            record = f"insert into public.cronlease_migrations (name, hash) values ('{file.name}', '{file.hash}');"
            parts += [f"-- migration {file.name}", file.text.strip(), record]
        for found in self.differences:
            parts += [f"-- {found.file.name} {found.what}", *(f"{each};" for each in found.before)]
            parts += [found.file.text.strip(), *(f"{each};" for each in found.after)]
        return "\n\n".join([*parts, "commit;"])


def drift(conn: "Connection[Any]") -> Drift:
    """Raises MigrationError for a ledger that cannot be trusted, and DatabaseTrouble."""
    with _rolled_back(conn):
        migrations = pending(conn)
        files = functions_and_views()
        found = _as_they_are(conn, files)
        return Drift(migrations, [each for file in files if (each := _compared(conn, file, found))])


@contextmanager
def _rolled_back(conn: "Connection[Any]") -> Iterator[None]:
    send_plain(conn, _OPENING)
    try:
        yield
    finally:
        conn.rollback()


def _as_they_are(conn: "Connection[Any]", files: list[SchemaFile]) -> dict[tuple[str, bool], list[dict[str, str]]]:
    """By name, and whether it is present or wanted."""
    for file in files:
        send_plain(conn, "savepoint before")
        try:
            send_plain(conn, file.text.replace(f" public.{file.name}", f" pg_temp.{file.name}", 1))
        except DatabaseTrouble:
            # A table or column that a migration has yet to bring: it cannot be as the file says.
            send_plain(conn, "rollback to savepoint before")
        send_plain(conn, "release savepoint before")
    names = {"names": [file.name for file in files]}
    text = Path(__file__).with_name("drift.sql").read_text("utf-8")
    by_place: dict[tuple[str, bool], list[dict[str, str]]] = {}
    for row in ask_plain(conn, Query(text, names, lambda row: row[0])):
        by_place.setdefault((row["name"], row["present"]), []).append(row)
    return by_place


def _compared(
    conn: "Connection[Any]", file: SchemaFile, found: dict[tuple[str, bool], list[dict[str, str]]]
) -> Difference | None:
    present, wanted = found.get((file.name, True), []), found.get((file.name, False), [])
    if not present:
        return Difference(file, "is missing", [], [])
    if [row["text"] for row in present] == [row["text"] for row in wanted]:
        return None
    same = [row for row in present if [row["text"]] == [each["text"] for each in wanted]]
    what = "has an older signature beside it" if same else "differs from its file"
    fits = [each["shape"] for each in wanted]
    before = [row["removal"] for row in present if [row["shape"]] != fits]
    return Difference(file, what, before, grants_of(conn, file.name) if before else [])
