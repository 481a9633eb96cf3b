"""A skip hit through the real function beside a bare function that runs `select 1` on the same kind of pool.

Both, and a hello, are served by functions-framework, started once, and take turns. Functions and database share a
core, so the figure counts all the work that a hit causes, its log line included; the client has the other core.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

from tests.bench import command
from tests.bench.served import HELLO, SELECT_1, Function, hit, serving, workers_of, written
from tests.bench.side_by_side import (
    NAME,
    ROOT,
    Bench,
    Cost,
    Measure,
    alternate,
    compare,
    cores,
    cpu_of,
    database,
    pin,
    show,
)
from tests.bench.table import Row

QUICK = {"rounds": 4, "seconds": 0.2}
BASE = "select 1 on the same pool"
GOALS = {"not_due": ">= 1.5", "locked": ">= 1.2"}
LATENCY = "<= 1.4"


Hits = Callable[[int, str], Measure]


class Client:
    """The client's process, and the functions that it hits."""

    def __init__(self, bench: Bench, core: int | None, seconds: float, stack: ExitStack) -> None:
        self._bench = bench
        self._core = core
        self._seconds = seconds
        self._stack = stack
        self._process = stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
        self._process.submit(pin, 0, cores()[0] if len(cores()) > 1 else None).result()

    def start(self, function: Function) -> Hits:
        """Starts it, and hits it on so many connections; the word must be in each answer."""
        port, process = self._stack.enter_context(serving(function, self._bench, self._core))

        def cost(connections: int, word: str) -> Cost:
            pids = [*workers_of(process.pid), *workers_of(self._bench.postmaster)]
            before = cpu_of(pids)
            answered, took = self._process.submit(hit, port, connections, self._seconds, word.encode()).result()
            return Cost(took / answered, (cpu_of(pids) - before) / answered)

        return lambda connections, word: lambda: cost(connections, word)


def rows(
    *,
    rounds: int = 20,
    seconds: float = 0.5,
    connections: int = 64,
    source: Path = ROOT / "functions" / "main.py",
    database_apart: bool = False,
) -> Iterator[Row]:
    """One row for each kind of skip with many connections, and one with a single connection."""
    core = cores()[-1] if len(cores()) > 1 else None
    beside = cores()[0] if core is not None and database_apart else core
    print(f"functions on core {core}, database on core {beside}, client on another; {connections} connections")
    with database(beside) as bench, ExitStack() as stack:
        client = Client(bench, core, seconds, stack)
        skip = client.start(Function(source, NAME, "not_due"))
        select_1 = client.start(written(bench, "select_1", SELECT_1))
        hello = client.start(written(bench, "hello", HELLO))
        for state, goal in GOALS.items():
            bench.set_row(state)
            ours, reason = f"a skip hit, {state}", f'"reason": "{state}"'
            variants = {BASE: select_1(connections, "ok"), ours: skip(connections, reason)}
            many = alternate(variants | {"hello": hello(connections, "ok")}, rounds)
            show(f"{state}, hits per second", many, BASE, as_rate=True)
            for base, wanted in ((BASE, goal), ("hello", "")):
                yield compare(f"{ours}, {connections} connections", many, ours, base, wanted, rate="hits/s")
            single = alternate({BASE: select_1(1, "ok"), ours: skip(1, reason)}, rounds)
            show(f"{state}, one connection", single, BASE)
            yield compare(f"{ours}, one connection", single, ours, BASE, LATENCY)


if __name__ == "__main__":
    command.run(rows, QUICK)
