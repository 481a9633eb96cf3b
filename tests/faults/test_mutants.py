"""P28: the tests can fail. Each guard of the SQL functions is taken away once, and the suite's own test of it must go
red.

A killer is a test of tests/schema or of this folder, called as it is: on the functions as they are, then on the
broken one.
"""

from collections.abc import Callable, Iterator
from functools import cache
from inspect import signature
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.conftest import Server
from tests.faults import (
    mutants_of_alerts,
    mutants_of_batches,
    mutants_of_bounds,
    mutants_of_claims,
    mutants_of_operators,
    mutants_of_runs,
    mutants_of_slots,
)
from tests.faults.mutants import Mutant
from tests.faults.profile import one_in
from tests.faults.scene import sql
from tests.schema.calls import acquire, schedule
from tests.schema.test_skip import SKIPPED

MUTANTS = [
    *mutants_of_claims.ALL,
    *mutants_of_batches.ALL,
    *mutants_of_runs.ALL,
    *mutants_of_operators.ALL,
    *mutants_of_bounds.ALL,
    *mutants_of_slots.ALL,
    *mutants_of_alerts.ALL,
]
RED = (AssertionError, psycopg.Error, pytest.fail.Exception)
MEANINGLESS = "42"
"""The class of errors of a text that makes no sense: such a mutant shows nothing."""


class Scratch:
    """A database whose functions are broken and repaired again."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.conn = psycopg.connect(dsn, autocommit=True)
        self.green = cache(lambda killer: self.play(killer, "30s"))

    def play(self, killer: Callable[..., None], patience: str) -> None:
        """One test on an empty database. Waiting longer than that for a lock is an error too."""
        self.conn.execute(_EMPTY)
        dsn = make_conninfo(self.dsn, options=f"-c statement_timeout={patience}")
        with psycopg.connect(dsn, autocommit=True) as conn:
            given: dict[str, Callable[[], Any]] = {
                "dsn": lambda: dsn,
                "conn": lambda: conn,
                "held": lambda: _held(conn),
                "skipped": lambda: _skipped(conn),
            }
            killer(**{name: given[name]() for name in signature(killer).parameters})

    def repair(self, mutant: Mutant) -> None:
        self.conn.execute(sql(mutant.function))
        # One of the killers breaks it itself.
        self.conn.execute(sql("is_band"))


def _held(conn: psycopg.Connection) -> tuple[Any, int]:
    schedule(conn)
    request = uuid4()
    return request, acquire(conn, request).fence


def _skipped(conn: psycopg.Connection) -> psycopg.Connection:
    for reason, changes in SKIPPED.items():
        schedule(conn, reason, changes)
    return conn


_EMPTY = """
drop table if exists public.effects;
delete from public.refresh_schedule;
delete from public.refresh_runs;
delete from public.refresh_alerts
"""


@pytest.fixture(scope="module")
def scratch(embedded_server: Server) -> Iterator[Scratch]:
    name = embedded_server.migrated()
    scratch = Scratch(embedded_server.url(name))
    yield scratch
    scratch.conn.close()
    embedded_server.drop(name)


@pytest.mark.parametrize("mutant", one_in(6, MUTANTS), ids=lambda mutant: mutant.says)
def test_a_missing_guard_is_noticed(scratch: Scratch, mutant: Mutant) -> None:
    scratch.green(mutant.killer)
    scratch.repair(mutant)
    scratch.conn.execute(mutant.text)
    try:
        with pytest.raises(RED) as caught:
            scratch.play(mutant.killer, "500ms")
    finally:
        scratch.repair(mutant)
    assert not (getattr(caught.value, "sqlstate", None) or "").startswith(MEANINGLESS), caught.value


def test_every_mutant_has_a_name_of_its_own() -> None:
    assert len({mutant.says for mutant in MUTANTS}) == len(MUTANTS)
