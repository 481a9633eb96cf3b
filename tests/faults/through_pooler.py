"""A pytest plugin: the tests' databases are reached through PgBouncer. They are created and dropped without it.

python -m pytest -p tests.faults.through_pooler tests/schema tests/integration
"""

from contextlib import ExitStack

import psycopg
from psycopg.conninfo import make_conninfo

from tests import conftest
from tests.faults.pgbouncer import pooling

_poolers: dict[str, str] = {}
_open = ExitStack()


_straight = conftest.Server.url


def _url(server: conftest.Server, name: str) -> str:
    if name in server._templates.values():
        # A connection that the pooler keeps would be in the way of cloning it.
        return _straight(server, name)
    if server.admin not in _poolers:
        _poolers[server.admin] = _open.enter_context(pooling(server.admin))
    return make_conninfo(_poolers[server.admin], dbname=name)


def pytest_configure() -> None:
    # The tests' own connections; ours must find out by themselves.
    for kind in (psycopg.Connection, psycopg.AsyncConnection):
        vars(kind)["connect"].__func__.__kwdefaults__["prepare_threshold"] = None
    conftest.Server.url = _url  # type: ignore[method-assign, assignment]


def pytest_unconfigure() -> None:
    _open.close()
