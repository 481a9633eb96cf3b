"""How fast due actions are drained: one dispatcher, eight of them, and the queues of the field, in one run.

    python -m tests.bench.bench_dispatch [--actions 20000] [--processes 8] [--writes 5000]

Every dispatcher is a process. The time begins when all of them have imported what they need, and ends when the last
action is recorded as done: some take seconds to end after that. A row of ours is a lease, a fence and a line of
history. First the actions do nothing. Then each writes one row: ours does so in `run.commit()`, where data and
schedule commit together. The peers have their default concurrency.
pg-boss needs Node.js and River needs Go: neither can run here.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import psycopg

from tests.bench import command
from tests.bench.contenders import CONTENDERS, LANES, WRITTEN
from tests.bench.peers import is_installed
from tests.bench.side_by_side import Bench, database
from tests.bench.table import Row, against, below

QUICK = {"actions": 300, "processes": 2, "writes": 200}
PEERS = [name for name in CONTENDERS if name != "ours"]
GOALS = {"pgqueuer": ">= 3"}
WRITING_GOALS = dict.fromkeys(PEERS, ">= 1")
NOT_COMPARED = "pg-boss needs Node.js and River needs Go, so neither is compared"
# A worker that runs so many actions at the same time stays below so many MB.
LIMIT = 150


class Drained(NamedTuple):
    """Actions per second, how many were not done exactly once, and the most memory of a process in MB."""

    rate: float
    wrong: int
    memory: float


@contextlib.contextmanager
def fresh(bench: Bench, name: str) -> Iterator[str]:
    yield bench.another(name)
    with bench.connect() as admin:
        admin.execute(f'drop database "{name}" with (force)'.encode())


def released(commands: list[list[str]]) -> tuple[float, list[str]]:
    """Runs them all to their ends; the time at which all were ready and began, and what each said at its end."""
    # They all read from the same pipe: its end is the start for all of them.
    waiting, start = os.pipe()
    children = [subprocess.Popen(each, stdin=waiting, stdout=subprocess.PIPE, text=True) for each in commands]
    os.close(waiting)
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n", "a process did not become ready"
        began = time.time()
    finally:
        os.close(start)
    said = [child.communicate()[0] for child in children]
    assert not any(child.returncode for child in children), "a process failed"
    return began, said


def run(bench: Bench, name: str, actions: int, processes: int, *, writes: bool = False) -> Drained:
    contender = CONTENDERS[name]
    with fresh(bench, f"{name} {processes}") as dsn:
        contender.fill(dsn, actions)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(WRITTEN)
            drain = [sys.executable, "-m", "tests.bench.contenders", name, dsn, *(["write"] if writes else [])]
            began, said = released([drain] * processes)
            wrong, ended = conn.execute(contender.figures.encode(), {"rows": actions}).fetchone() or (actions, None)
            written = conn.execute("select count(*) from written").fetchone()
        assert ended is not None, f"{name} did nothing"
        assert written == (actions if writes else 0,), f"{name} wrote {written}"
        # The database's clock is ours: both are on this machine.
        seconds = float(ended) - began
        found = Drained(actions / seconds, int(wrong), max(map(float, said)))
        print(
            f"{name}, {processes} processes, {actions} {'writes' if writes else 'empty actions'}: {seconds:.1f} s,"
            f" {found.rate:.0f}/s, {found.wrong} twice or never, {found.memory:.0f} MB",
            flush=True,
        )
        return found


def rates(found: Mapping[str, Drained]) -> dict[str, float]:
    return {name: drained.rate for name, drained in found.items()}


def each_row(what: str, rates: Mapping[str, float], goals: Mapping[str, str], suffix: str = "") -> Iterator[Row]:
    """Ours beside every peer; a peer that is not there has a row that says so."""
    for peer in PEERS:
        row = against(what, rates["ours"], "actions/s", f"{peer}{suffix}", rates.get(peer), goals.get(peer, ""))
        yield row if peer in rates else row._replace(note=f"{peer} cannot be installed here")


def memory_row(found: Drained) -> Row:
    return below(f"memory of a worker that runs {LANES} actions at a time", found.memory, "MB", LIMIT)


def rows(*, actions: int = 20_000, processes: int = 8, writes: int = 5_000) -> Iterator[Row]:
    names = ["ours", *(peer for peer in PEERS if is_installed(peer))]
    what = f"{actions:,} empty actions"
    with database(None) as bench:
        one = {name: run(bench, name, actions, 1) for name in names}
        yield from each_row(f"{what}, one process", rates(one), GOALS)
        many = {name: run(bench, name, actions, processes) for name in names}
        best = {name: max(many[name].rate, one[name].rate) for name in names} | {"ours": many["ours"].rate}
        yield from each_row(f"{what}, {processes} processes", best, GOALS, "'s best")
        wrote = {name: run(bench, name, writes, 1, writes=True) for name in names}
        yield from each_row(f"{writes:,} actions that write a row, one process", rates(wrote), WRITING_GOALS)
        wrong = sum(found["ours"].wrong for found in (one, many, wrote))
        yield Row("actions of these run twice or never", wrong, goal="<= 0", note=NOT_COMPARED)
        yield memory_row(one["ours"])


if __name__ == "__main__":
    command.run(rows, QUICK, peers=PEERS)
