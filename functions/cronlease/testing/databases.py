"""The server of a test session: hands out a database per test."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Self

# A file of SQL, SQL itself, or a function that is called with the address of the database.
Setup = Path | str | Callable[[str], object] | None


class Cluster:
    """A server that hands out databases: empty ones, or clones of one that migrate built. `ours`: nobody else uses
    the server, and its fsync is off."""

    def __init__(self, admin: str, *, ours: bool = False) -> None:
        import psycopg

        self.admin = admin
        self._connection = psycopg.connect(admin, autocommit=True)
        self._templates: dict[tuple[Setup, tuple[str, ...] | None, str], str] = {}
        # Without fsync a checkpoint is cheap, so copying files is faster. The copy also holds the catalog cache file,
        # which makes the first connection faster; a copy through the log lacks it.
        copies = ours and self._connection.info.server_version >= 150000
        self._strategy = " strategy file_copy" if copies else ""

    def url(self, name: str) -> str:
        from psycopg.conninfo import make_conninfo

        return make_conninfo(self.admin, dbname=name)

    @property
    def role(self) -> str:
        return self._connection.info.user

    def create(self, template: str = "template0") -> str:
        """The name of a new database."""
        name = f"cronlease_test_{uuid.uuid4().hex[:12]}"
        self._send("create database {} template {}" + self._strategy, name, template)
        return name

    def migrated(self, setup: Setup = None, packages: tuple[str, ...] | None = None) -> str:
        """The name of a new database with the tables of these packages, by default of all installed ones, and with
        what the setup creates."""
        from cronlease.db.migration.migrate import migrate
        from cronlease.db.schema import schema

        kind = (setup, packages, schema())
        if kind not in self._templates:
            template = self._templates[kind] = self.create()
            try:
                migrate(self.url(template), packages=packages)
                _set_up(self.url(template), setup)
            except BaseException:
                self.drop(self._templates.pop(kind))
                raise
        return self.create(self._templates[kind])

    def drop(self, name: str) -> None:
        self._send("drop database if exists {} with (force)", name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for template in self._templates.values():
            self.drop(template)
        self._connection.close()

    def _send(self, text: str, *names: str) -> None:
        from psycopg import sql

        self._connection.execute(sql.SQL(text).format(*map(sql.Identifier, names)))


def _set_up(url: str, setup: Setup) -> None:
    from cronlease.emulator.setup import run_file, run_text

    if callable(setup):
        setup(url)
    elif isinstance(setup, Path):
        run_file(url, setup)
    elif setup is not None:
        run_text(url, setup, "cronlease_setup")
