"""The statements of a module's .sql file, each of which answers one value."""

from pathlib import Path
from typing import Any

from cronlease.db.ask import ask_sync
from cronlease.db.conninfo import SyncConnection
from cronlease.db.queries import Query, first, load_queries


class Questions:
    """Called with a statement's name and parameters, it asks that one."""

    def __init__(self, module_file: str) -> None:
        self.texts = load_queries(Path(module_file).with_suffix(".sql"))

    def __call__(self, conn: SyncConnection, statement: str, /, **params: Any) -> Any:
        return ask_sync(conn, Query(self.texts[statement], params, first))
