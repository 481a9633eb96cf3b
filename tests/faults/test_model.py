"""Hypothesis drives the SQL functions and a model of them in Python, and looks for a way to make them differ.

At most one lease is live, the fence strictly grows (P17), next_run_at moves once for each finished run, and a stale
fence changes nothing.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.faults.machine import CLIENTS, Machine
from tests.faults.mutants_of_claims import ALL
from tests.faults.profile import Profile

STEPS = 20


@pytest.fixture
def machine(dsn: str) -> Iterator[type[Machine]]:
    with ExitStack() as stack:
        opened = (psycopg.connect(dsn, autocommit=True) for _ in range(2 + CLIENTS))
        connections = [stack.enter_context(closing(conn)) for conn in opened]
        yield type("Machine", (Machine,), {"connections": connections, "steps": 0})


def drive(machine: type[Machine], profile: Profile, examples: int, **more: Any) -> None:
    how = settings(max_examples=examples, stateful_step_count=STEPS, database=None, **more)
    run_state_machine_as_test(seed(profile.seed)(machine), settings=how)


@pytest.mark.timeout(3600)
def test_the_sql_functions_do_what_the_model_says(machine: type[Machine], profile: Profile) -> None:
    examples = profile.n("P17")
    drive(machine, profile, examples)
    profile.record("P17", examples, examples, steps=machine.steps)


def test_a_fence_that_stands_still_is_seen(machine: type[Machine], profile: Profile) -> None:
    """The negative control."""
    (still,) = (mutant for mutant in ALL if "the fence stands still" in mutant.says)
    machine.connections[1].execute(still.text)
    with pytest.raises(AssertionError, match=r"SQL has .*'fence': 0"):
        drive(machine, profile, 100, phases=[Phase.generate])
