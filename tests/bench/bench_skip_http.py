"""A skip hit through the real function against a bare function that runs `select 1` on the same pool, and a hello.

Functions and database share a core, so the figure counts all the work a hit causes; the client has the other one.
"""

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

from tests.bench.served import HELLO, SELECT_1, hit, serving, workers_of
from tests.bench.side_by_side import NAME, ROOT, Bench, Cost, Measure, alternate, cores, cpu_of, database, pin, show

CONNECTIONS = 8


class Comparison:
    """The three functions, started once, and the client's process."""

    def __init__(self, bench: Bench, core: int | None, seconds: float, source: Path, stack: ExitStack) -> None:
        self._bench = bench
        self._core = core
        self._seconds = seconds
        self._stack = stack
        self._client = stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
        if len(cores()) > 1:
            self._client.submit(pin, 0, cores()[0]).result()
        bare, hello = bench.place / "bare.py", bench.place / "hello.py"
        bare.write_text(SELECT_1)
        hello.write_text(HELLO)
        self.skip = self._serve(source, NAME)
        self.select_1 = self._serve(bare, "select_1")
        self.hello = self._serve(hello, "hello")

    def _serve(self, source: Path, target: str) -> Callable[[bytes], Measure]:
        port, pid = self._stack.enter_context(serving(source, target, self._bench, self._core))

        def measure(expected: bytes) -> Cost:
            pids = [*workers_of(pid), *workers_of(self._bench.postmaster)]
            before = cpu_of(pids)
            answered, took = self._client.submit(hit, port, CONNECTIONS, self._seconds, expected).result()
            return Cost(took / answered, (cpu_of(pids) - before) / answered)

        return lambda expected: lambda: measure(expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one round")
    parser.add_argument("--source", type=Path, default=ROOT / "functions" / "main.py", help="another main.py")
    parser.add_argument("--database-apart", action="store_true", help="the database beside the client instead")
    args = parser.parse_args()
    core = cores()[-1] if len(cores()) > 1 else None
    beside = cores()[0] if core is not None and args.database_apart else core
    print(f"functions on core {core}, database on core {beside}, client on another; {CONNECTIONS} connections")
    with database(beside) as bench, ExitStack() as stack:
        compared = Comparison(bench, core, args.seconds, args.source, stack)
        for state in ("not_due", "locked"):
            bench.set_row(state)
            variants = {
                "select 1 on the same pool": compared.select_1(b"ok"),
                f"a skip hit, {state}": compared.skip(f'"reason": "{state}"'.encode()),
                "hello": compared.hello(b"hello"),
            }
            found = alternate(variants, args.rounds)
            goals = {f"a skip hit, {state}": ">= 0.80"}
            show(f"{state}, hits per second", found, "select 1 on the same pool", goals, as_rate=True)


if __name__ == "__main__":
    main()
