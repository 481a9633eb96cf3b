"""Runs the statements of a module's .sql file, each of which returns one value."""

from pathlib import Path
from typing import Any, Protocol

from cronlease.db.ask import ask_sync
from cronlease.db.conninfo import SyncConnection
from cronlease.db.queries import Query, load_queries


class Ask(Protocol):
    def __call__(self, conn: SyncConnection, statement: str, /, **params: Any) -> Any: ...


def questions_of(module_file: str) -> Ask:
    """A function that runs one of them by its name."""
    texts = load_queries(Path(module_file).with_suffix(".sql"))

    def ask(conn: SyncConnection, statement: str, /, **params: Any) -> Any:
        return ask_sync(conn, Query(texts[statement], params, lambda row: row[0]))

    return ask
