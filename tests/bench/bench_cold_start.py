"""Process spawn to the first 200: our function, served in two ways, beside a bare functions-framework hello.

Ours asks the database before it answers. So does the second hello, by psycopg alone: it shows how much of a cold
start the driver and its connection are. Bytecode is there, as in the image: the first start of each, which does not
count, compiles what it imports. The last output is a list of the modules that our function imports and the hello does
not.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench import command
from tests.bench.served import HELLO, SERVE, Function, environment, free_port, serving, stop, workers_of, written
from tests.bench.side_by_side import (
    NAME,
    ROOT,
    Bench,
    Cost,
    Measure,
    alternate,
    children_on,
    compare,
    cores,
    cpu_of,
    database,
    show,
)
from tests.bench.table import Row

QUICK = {"rounds": 3, "most": 5}
BASE = "a bare hello on functions-framework"
ASKING = """import os

import functions_framework.aio
import psycopg


@functions_framework.aio.http
async def asking(request):
    async with await psycopg.AsyncConnection.connect(os.environ["DATABASE_URL"]) as conn:
        await conn.execute("select 1")
    return "ok"
"""
_IMPORT = re.compile(r"^import time: +(\d+) \| +(\d+) \| ( *)(\S+)$", re.MULTILINE)


def start(bench: Bench, function: Function, core: int | None) -> Measure:
    """Spawns it, waits for its first answer, stops it."""

    def measure() -> Cost:
        port, env = free_port(), environment(bench)
        start = time.perf_counter()
        with children_on(core):
            process = function.spawn(port, env, bench.place / f"{function.target}.log")
        try:
            function.first_answer(port, process)
            return Cost(time.perf_counter() - start, cpu_of(workers_of(process.pid)))
        finally:
            stop(process)

    return measure


def imports(bench: Bench, function: Function) -> dict[str, tuple[int, int]]:
    """Microseconds of each module it has imported by the first answer: its own, and with what it imported."""
    with serving(function, bench, None, options=("-X", "importtime")):
        pass
    log = bench.place / f"{function.target}.log"
    return {name: (int(own), int(total)) for own, total, _, name in _IMPORT.findall(log.read_text())}


def show_imports(bench: Bench, function: Function, hello: Function, most: int) -> None:
    ours, bare = imports(bench, function), imports(bench, hello)
    extra = {name: cost for name, cost in ours.items() if name not in bare}
    total = sum(own for own, _ in extra.values()) / 1000
    print(f"\n{len(extra)} modules that the hello does not import, {total:.1f} ms in all (importtime adds some)")
    for title, key in (("by itself", 0), ("with what it imports", 1)):
        print(f"  ms {title}")
        for name, cost in sorted(extra.items(), key=lambda item: -item[1][key])[:most]:
            print(f"  {cost[key] / 1000:6.1f}  {name}")


def rows(*, rounds: int = 16, source: Path = ROOT / "functions" / "main.py", most: int = 15) -> Iterator[Row]:
    """The starts take turns; `most` is how many modules are listed."""
    core = cores()[-1] if len(cores()) > 1 else None
    with database(core) as bench:
        hello, framework = written(bench, "hello", HELLO), Function(source, NAME, "not_due")
        print(f"the function and the database on core {core}, {rounds} spawns each")
        goals = {
            "a hello that asks by psycopg": (written(bench, "asking", ASKING), ""),
            "our target on functions-framework": (framework, "<= 1.15"),
            "our ASGI app by cronlease serve": (framework._replace(served_by=SERVE), "<= 0.9"),
        }
        variants = {name: start(bench, function, core) for name, (function, _) in goals.items()}
        found = alternate({BASE: start(bench, hello, core)} | variants, rounds)
        show("spawn to the first 200", found, BASE)
        for name, (_, goal) in goals.items():
            yield compare(f"cold start, {name}", found, name, BASE, goal)
        show_imports(bench, framework, hello, most)


if __name__ == "__main__":
    command.run(rows, QUICK)
