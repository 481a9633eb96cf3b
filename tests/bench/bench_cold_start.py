"""Process spawn to the first 200: our function, which asks the database, against a bare functions-framework hello.

Bytecode is present. Then what our function imports beyond what the hello does, in the process that answered.
"""

import argparse
import re
import time
from pathlib import Path

from tests.bench.served import HELLO, environment, first_answer, free_port, spawn_function, stop, workers_of
from tests.bench.side_by_side import NAME, ROOT, Bench, Cost, Measure, alternate, children_on, cores, cpu_of, database
from tests.bench.side_by_side import show as show_table

_IMPORT = re.compile(r"^import time: +(\d+) \| +(\d+) \| ( *)(\S+)$", re.MULTILINE)


def start(bench: Bench, source: Path, target: str, core: int | None) -> Measure:
    """Spawns it, waits for its first answer, stops it."""

    def measure() -> Cost:
        port, env = free_port(), environment(bench)
        start = time.perf_counter()
        with children_on(core):
            process = spawn_function(source, target, port, env, bench.place / f"{target}.log")
        try:
            first_answer(port, process)
            return Cost(time.perf_counter() - start, cpu_of(workers_of(process.pid)))
        finally:
            stop(process)

    return measure


def imports(bench: Bench, source: Path, target: str) -> dict[str, tuple[int, int]]:
    """Microseconds of each module it has imported by the first answer: its own, and with what it imported."""
    port, log = free_port(), bench.place / "imports.log"
    process = spawn_function(source, target, port, environment(bench), log, options=("-X", "importtime"))
    try:
        first_answer(port, process)
    finally:
        stop(process)
    return {name: (int(own), int(total)) for own, total, _, name in _IMPORT.findall(log.read_text())}


def show_imports(bench: Bench, source: Path, hello: Path, most: int) -> None:
    ours, bare = imports(bench, source, NAME), imports(bench, hello, "hello")
    extra = {name: cost for name, cost in ours.items() if name not in bare}
    total = sum(own for own, _ in extra.values()) / 1000
    print(f"\n{len(extra)} modules that the hello does not import, {total:.1f} ms in all (importtime adds some)")
    for title, key in (("by itself", 0), ("with what it imports", 1)):
        print(f"  ms {title}")
        for name, cost in sorted(extra.items(), key=lambda item: -item[1][key])[:most]:
            print(f"  {cost[key] / 1000:6.1f}  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--source", type=Path, default=ROOT / "functions" / "main.py", help="another main.py")
    parser.add_argument("--most", type=int, default=15, help="modules to list")
    args = parser.parse_args()
    core = cores()[-1] if len(cores()) > 1 else None
    with database(core) as bench:
        hello = bench.place / "hello.py"
        hello.write_text(HELLO)
        print(f"the function and the database on core {core}, {args.rounds} spawns each")
        base, ours = "a bare hello", "our function, a skip"
        variants = {base: start(bench, hello, "hello", core), ours: start(bench, args.source, NAME, core)}
        show_table("spawn to the first 200", alternate(variants, args.rounds), base, {ours: "<= 1.25"})
        show_imports(bench, args.source, hello, args.most)


if __name__ == "__main__":
    main()
