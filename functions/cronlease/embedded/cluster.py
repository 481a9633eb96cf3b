"""The cluster of the embedded PostgreSQL: its files, the server's command line and addresses. Starts no server."""

import os
import secrets
import shlex
import shutil
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from cronlease.embedded import child
from cronlease.embedded.install import Account, EmbeddedPostgresError, closed_directory, program

DATABASE = "cronlease"
_BUILDING = "initdb-"
_INITDB_SECONDS = 120.0


def default_data_dir() -> Path:
    """CRONLEASE_DATA_DIR, else this system's place for a user's data."""
    if chosen := os.environ.get("CRONLEASE_DATA_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "cronlease"
    if os.geteuid() == 0:
        # Root's home is usually closed to the account that PostgreSQL must run as.
        return Path("/var/lib/cronlease")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "cronlease"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "cronlease"


def make_data_dir(data_dir: Path, account: Account | None) -> None:
    """Creates missing directories of the path; existing ones keep their owner and mode."""
    missing = [path for path in [data_dir, *data_dir.parents] if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        path.chmod(0o755 if account else 0o700)
    if account and (closed := closed_directory(data_dir, account)):
        raise EmbeddedPostgresError(
            f"{closed} is closed to the account {account.name}, which PostgreSQL runs as when we are root:"
            " set CRONLEASE_DATA_DIR to a directory that every account may enter"
        )


def create_cluster(cluster: Path, bin_dir: Path, account: Account | None, *, fsync: bool) -> None:
    """Runs initdb in a temporary directory and renames it, so that an existing cluster is always complete. The caller
    holds the start lock, so leftovers of another initdb can be deleted."""
    for abandoned in cluster.parent.glob(f"{_BUILDING}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    building = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=cluster.parent))
    try:
        made, password = building / "cluster", building / "password"
        made.mkdir(mode=0o700)
        password.touch(mode=0o600)
        password.write_text(secrets.token_hex(24), encoding="ascii")
        if account:
            for path in (building, made, password):
                shutil.chown(path, account.uid, account.gid)
        _run_initdb(bin_dir, made, password, account, fsync=fsync)
        password.rename(password_file(made))
        made.rename(cluster)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _run_initdb(bin_dir: Path, made: Path, password: Path, account: Account | None, *, fsync: bool) -> None:
    command = [str(program(bin_dir, "initdb")), "-D", str(made), "-E", "UTF8", "--no-locale", "-U", "postgres"]
    command += ["-A", "scram-sha-256", f"--pwfile={password}", *([] if fsync else ["--no-sync"])]
    with tempfile.TemporaryFile() as output:
        process = child.spawn(command, account=account, output=output, env=server_environment(), cwd=made.parent)
        try:
            status = process.wait(_INITDB_SECONDS)
        finally:
            child.stop(process, [])
        if status != 0:
            output.seek(0)
            raise EmbeddedPostgresError(f"initdb failed: {one_line(output.read())}")


def password_file(cluster: Path) -> Path:
    return cluster / "cronlease_password"


def server_command(cluster: Path, bin_dir: Path, port: int, *, fsync: bool) -> list[str]:
    """The command that serves the cluster on loopback."""
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "max_connections": 100,
        "shared_buffers": "64MB",
        "logging_collector": "off",
    }
    if not fsync:
        # For tests; some of them prepare transactions.
        settings |= {"fsync": "off", "full_page_writes": "off", "max_prepared_transactions": "10"}
    command = [str(program(bin_dir, "postgres")), "-D", str(cluster)]
    return command + [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


def server_environment() -> dict[str, str]:
    """Our environment without libpq's variables, and with untranslated messages."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PG")} | {"LC_ALL": "C"}


def one_line(log: bytes) -> str:
    """The end of a program's output, fit for a sentence."""
    lines = [line.strip() for line in log.decode(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-5:]) or "it printed nothing"


@dataclass(frozen=True, slots=True)
class PostmasterFile:
    """The postmaster.pid of a server. After a crash the file stays and is stale."""

    pid: int
    port: int
    ready: bool

    @classmethod
    def read(cls, cluster: Path) -> Self | None:
        """None when the file is missing or incomplete."""
        try:
            lines = (cluster / "postmaster.pid").read_text(errors="replace").splitlines()
            return cls(int(lines[0]), int(lines[3]), len(lines) > 7 and lines[7].strip() == "ready")
        except (OSError, ValueError, IndexError):
            return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Reachable:
    """The addresses of a server; its port and password are known once it runs."""

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
        # Overrides a user's PGSSLMODE and the like: this server supports none of it.
        return f"postgresql://postgres:{self._password}@{address}?sslmode=disable&gssencmode=disable"

    def shell_variables(self, dbname: str) -> str:
        """libpq's variables for a shell, for psql and our commands; names the password's file, not the password."""
        password = shlex.quote(str(password_file(self._cluster)))
        address = f"PGHOST=127.0.0.1 PGPORT={self.port} PGUSER=postgres PGDATABASE={shlex.quote(dbname)}"
        return f'{address} PGPASSWORD="$(cat {password})"'

    def psql_command(self, dbname: str) -> str:
        """A command to paste into a shell."""
        return f"{self.shell_variables(dbname)} {shlex.quote(str(program(self._bin_dir, 'psql')))}"


def create_if_missing(dsn: str, dbname: str) -> None:
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as conn:
        if conn.execute("select from pg_database where datname = %s", [dbname]).fetchone() is None:
            conn.execute(sql.SQL("create database {}").format(sql.Identifier(dbname)))
