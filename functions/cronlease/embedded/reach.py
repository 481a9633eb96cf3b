"""How the embedded PostgreSQL is reached: over loopback, with the password that is kept in its cluster."""

import shlex
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from cronlease.embedded.cluster import password_file
from cronlease.embedded.install import program

DATABASE = "cronlease"


class Reachable:
    """Where a server listens, and who may connect; its port and password are known once it runs."""

    def __init__(self, cluster: Path, bin_dir: Path) -> None:
        self._cluster = cluster
        self._bin_dir = bin_dir
        self._password = ""
        self.port = 0

    @property
    def dsn(self) -> str:
        return self.dsn_for(DATABASE)

    def dsn_for(self, dbname: str) -> str:
        """A URI for any database of the server."""
        address = f"127.0.0.1:{self.port}/{quote(dbname, safe='')}"
        # The options keep a user's PGSSLMODE and the like from reaching a server that has none of it.
        return f"postgresql://postgres:{self._password}@{address}?sslmode=disable&gssencmode=disable"

    def shell_variables(self, dbname: str) -> str:
        """For a shell: libpq's, which psql and our verbs read; names the file of the password, not the password."""
        password = shlex.quote(str(password_file(self._cluster)))
        address = f"PGHOST=127.0.0.1 PGPORT={self.port} PGUSER=postgres PGDATABASE={shlex.quote(dbname)}"
        return f'{address} PGPASSWORD="$(cat {password})"'

    def psql_command(self, dbname: str) -> str:
        """What to paste into a shell to look inside."""
        return f"{self.shell_variables(dbname)} {shlex.quote(str(program(self._bin_dir, 'psql')))}"


def create_if_missing(dsn: str, dbname: str) -> None:
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as conn:
        if conn.execute("select from pg_database where datname = %s", [dbname]).fetchone() is None:
            conn.execute(sql.SQL("create database {}").format(sql.Identifier(dbname)))
