"""A PgBouncer of our own in transaction mode, in front of a server of the tests."""

import os
import pwd
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.acceptance.conftest import free_port
from tests.integration.conftest import wait_until
from tests.require import need

SERVER_CONNECTIONS = 2


def need_pgbouncer() -> str:
    return need("pgbouncer", "/usr/sbin/pgbouncer")


@contextmanager
def pooling(dsn: str) -> Iterator[str]:
    """A DSN that leads to the same server through the pooler; every database of it gets so many connections."""
    program = need_pgbouncer()
    target = conninfo_to_dict(dsn)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="cronlease-pooler-") as place:
        directory = Path(place)
        directory.chmod(0o755)
        config = directory / "pgbouncer.ini"
        config.write_text(
            "[databases]\n"
            f"* = host={target['host']} port={target['port']} user={target['user']} password={target['password']}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            "auth_type = any\npool_mode = transaction\n"
            f"default_pool_size = {SERVER_CONNECTIONS}\nmax_client_conn = 500\nmax_db_connections = 0\n"
            # A database that was dropped and made again must not find the connections of the old one.
            "server_fast_close = 1\nserver_login_retry = 1\n"
        )
        # It refuses to run as root.
        user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen([program, str(config)], stdout=log, stderr=log, user=user)
        try:
            wait_until(lambda: _listens(port, process, directory / "log"))
            # The first client of a database waits until the pooler has logged in there: on a busy machine, a while.
            yield make_conninfo(dsn, host="127.0.0.1", port=port, connect_timeout=30)
        finally:
            process.terminate()
            process.wait(10)


def _listens(port: int, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
