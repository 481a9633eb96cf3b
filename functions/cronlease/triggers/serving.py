"""The line at the start: which functions this process serves, on which database and at which address."""

import logging
import os
from collections.abc import Callable

from cronlease import registry
from cronlease.db.conninfo import place_of
from cronlease.errors import DatabaseTrouble
from cronlease.observe import logs
from cronlease.settings import Settings


def say(function: str, settings: Settings, address: str) -> None:
    """Logs the line. Without secrets: of the database only where it is and who we are there."""
    others = [name for name in registry.jobs() if name != function]
    more = f" (POST /run-due also runs {', '.join(others)})" if others else ""
    said = f"Serving {function}{more} at {address} on {_database(settings)}"
    logs.log(logging.INFO, said, action="serving_started", function=function)


def when_forked(function: str, say_at: Callable[[str], None]) -> None:
    """Calls `say_at` with the address in each worker of the framework, when it starts. The framework has no hook for
    that: it imports us in the master, which binds and forks. Under another server this does nothing."""
    address = _framework_address(function)
    if address is None or not hasattr(os, "register_at_fork"):
        return
    master = os.getpid()

    def forked() -> None:
        # Not in what a job forks.
        if os.getppid() == master:
            say_at(address)

    os.register_at_fork(after_in_child=forked)


def _framework_address(function: str) -> str | None:
    """Where functions-framework is about to serve this function; None where another program imports us."""
    import click

    ctx = click.get_current_context(silent=True)
    if ctx is None or ctx.params.get("target") != function or not {"host", "port"} <= ctx.params.keys():
        return None
    return f"http://{ctx.params['host']}:{ctx.params['port']}"


def _database(settings: Settings) -> str:
    if not settings.has_database:
        from cronlease.embedded.cluster import default_data_dir

        return f"the embedded PostgreSQL in {default_data_dir() / 'postgres'}: set DATABASE_URL for another"
    try:
        return f"the database {place_of(settings.database_url or '')}"
    except DatabaseTrouble as trouble:
        return f"no database: {trouble}"
