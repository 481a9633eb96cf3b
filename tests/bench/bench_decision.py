"""The skip decision against `select 1` on the same plain connection, both prepared, client and backend on one core.

The other rows say where the time goes.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg

from cronlease.db.ask import ask_sync
from cronlease.db.functions import Claim, acquire_refresh_lock
from cronlease.db.queries import Query
from tests.bench import command
from tests.bench.side_by_side import NAME, Cost, Measure, alternate, compare, measured, pinned, show
from tests.bench.table import Row

QUICK = {"rounds": 4}
FUNCTION = "public.acquire_refresh_lock"
SHORT = "select acquired, reason, locked_until, next_run_at from"
BARE = f"select * from {FUNCTION}(p_function_name => '{NAME}', p_request_id => gen_random_uuid())"
LOOP = "do $$ begin for i in 1..{calls} loop {statement}; end loop; end $$"


def query() -> Query[Claim]:
    return acquire_refresh_lock(NAME, uuid4(), timedelta(minutes=5), backoff=timedelta(minutes=40))


def over_the_wire(conn: psycopg.Connection[Any], times: int) -> dict[str, Measure]:
    """Seconds of one call as a client sees it."""
    backend, asked = [conn.info.backend_pid], query()
    as_text = {name: _as_text(value) for name, value in asked.params.items()}
    kept = conn.cursor()

    def ask(text: str, params: Mapping[str, Any] | list[Any] | None = None) -> Measure:
        return measured(lambda: conn.execute(text, params).fetchone(), times, backend)

    by_key = "from public.refresh_schedule where function_name = %s"
    return {
        "select 1": ask("select 1"),
        "the decision": ask(asked.text, asked.params),
        "  with the query built and read": measured(lambda: ask_sync(conn, query()), times, backend),
        "  four of its columns": ask(f"{SHORT} {asked.text.partition(' from ')[2]}", asked.params),
        "  parameters as text": ask(asked.text, as_text),
        "  two parameters": ask(BARE.replace(f"'{NAME}'", "%s").replace("gen_random_uuid()", "%s"), [NAME, uuid4()]),
        "  on a cursor that is kept": measured(
            lambda: kept.execute(asked.text, asked.params).fetchone(), times, backend
        ),
        "the row by its key, all columns": ask(f"select * {by_key}", [NAME]),
        "the row by its key, four columns": ask(f"select locked_by, locked_until, next_run_at, id {by_key}", [NAME]),
    }


def _as_text(value: object) -> object:
    """As the server would read it from a text; psycopg sends a str without a type."""
    if isinstance(value, timedelta):
        return f"{value.total_seconds()} seconds"
    return str(value) if isinstance(value, UUID) else value


def in_the_server(conn: psycopg.Connection[Any], calls: int) -> dict[str, Measure]:
    """Seconds of one call from a loop inside the backend: no wire, no client."""

    def loop(statement: str) -> Measure:
        text = LOOP.format(calls=calls, statement=statement)
        measure = measured(lambda: conn.execute(text), 1, [conn.info.backend_pid])
        return lambda: Cost._make(seconds / calls for seconds in measure())

    perform = BARE.replace("select * from", "perform * from")
    columns = "s.locked_by, s.locked_until, s.next_run_at, s.id"
    return {
        "an empty statement": loop("perform gen_random_uuid()"),
        "the row by its key": loop(
            f"perform {columns} from public.refresh_schedule s where s.function_name = '{NAME}'"
        ),
        "the decision": loop(perform),
    }


def rows(*, rounds: int = 40) -> Iterator[Row]:
    with pinned() as bench, bench.connect() as conn:
        for state in ("not_due", "locked"):
            bench.set_row(state)
            found = alternate(over_the_wire(conn, 300), rounds)
            show(f"{state}, one round trip", found, "select 1")
            yield compare(f"the decision, {state}, one round trip", found, "the decision", "select 1", "<= 2.0")
        found = alternate(in_the_server(conn, 5000), max(5, rounds // 3))
        show("locked, inside the server", found, "the row by its key")
        yield compare("the decision, locked, inside the server", found, "the decision", "the row by its key")


if __name__ == "__main__":
    command.run(rows, QUICK)
